package lane_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/internal/clocks"
)

func TestMain(m *testing.M) {
	clocks.Spread = func(most time.Duration) time.Duration { return most - 1 } // tries come when they are due
	goleak.VerifyTestMain(m)
}
