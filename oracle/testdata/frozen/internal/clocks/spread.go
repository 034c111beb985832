package clocks

import (
	"math/rand/v2"
	"time"
)

// Spread returns a random length, at least 0 and less than most: for processes that are not to do something all at the
// same time. The simulation of the fleet sets it once, before its first test, so that a seed gives the same run again.
var Spread = rand.N[time.Duration]
