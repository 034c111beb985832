package machine

import (
	"time"

	"github.com/seed62658d38/watchdog/internal/verdict"
)

// Trip is the run's end that is being recorded, nil if there is none.
func (n *Node) Trip() *Trip { return n.trip }

// Worked is what the wall clock shows at an instant of the window: the real time without the pauses.
func (n *Node) Worked(at time.Duration) time.Duration { return at - verdict.Paused(n.seen, at) }

// Left is what is left of the wall clock, with the reserve.
func (n *Node) Left(at time.Duration) time.Duration { return verdict.Left(*n.Limits, n.seen, at) }

// Budget is the length of the wall clock, with its extensions.
func (n *Node) Budget() time.Duration { return verdict.Sum(n.Limits.WallClock, n.seen.Extended) }
