package watchdogtest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/watchdogtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A test moves the time by hand.
func ExampleMockClock() {
	now := watchdogtest.NewMockClock()
	wd, err := watchdog.New(context.Background(), watchdog.Run{StartedAt: now.Now()}, watchdog.Config{
		Clock: now, Budget: watchdog.Budget{WallClock: time.Hour},
	})
	if err != nil {
		panic(err)
	}
	defer wd.Close()
	now.Add(time.Hour)
	_, fired := wd.Fired()
	fmt.Println("at the limit:", fired)
	now.Add(1)
	_, fired = wd.Fired()
	fmt.Println("past it:", fired)
	// Output:
	// at the limit: false
	// past it: true
}

// TestMockClock protects a host that brings its own mock clock.
func TestMockClock(t *testing.T) {
	mock := clock.NewMock()
	now := &watchdogtest.MockClock{Mock: mock}
	rang := make(chan struct{})
	timer := now.AfterFunc(time.Second, func() { close(rang) })
	mock.Add(time.Second)
	<-rang
	require.False(t, timer.Stop())
	timer = now.AfterFunc(time.Second, func() { t.Error("a timer that was stopped rang") })
	require.True(t, timer.Stop())
	mock.Add(time.Hour)
}
