package main_test

import (
	"context"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	main "github.com/seed62658d38/watchdog/cmd/watchdog"
)

// A sent is a signal that is sent some time after the last one.
type sent struct {
	sig   syscall.Signal
	after time.Duration
}

func TestRepeatedSignals(t *testing.T) {
	t.Parallel()
	const (
		TERM, HUP, INT  = syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT
		second, quarter = time.Second, 250 * time.Millisecond
	)
	type signals = []sent
	for name, c := range map[string]struct {
		sent   signals
		shared bool // the terminal
		ended  int32
		killed syscall.Signal
	}{
		"a SIGTERM ends the command":                       {signals{{TERM, 0}}, false, 1, 0},
		"SIGTERM to a child and its group is one":          {signals{{TERM, 0}, {TERM, 0}}, false, 1, 0},
		"SIGHUP to a child and its group is one":           {signals{{HUP, 0}, {HUP, 0}}, false, 1, 0},
		"SIGINT to a child and its group is one":           {signals{{INT, 0}, {INT, 0}}, false, 1, 0},
		"so is a third SIGTERM":                            {signals{{TERM, 0}, {TERM, 1}, {TERM, second - 1}}, false, 1, 0},
		"a SIGTERM after more than a second is a second":   {signals{{TERM, 0}, {TERM, second + 1}}, false, 1, TERM},
		"a SIGHUP after more than a second is a second":    {signals{{HUP, 0}, {HUP, second + 1}}, false, 1, HUP},
		"a SIGINT after a quarter of a second is a repeat": {signals{{INT, 0}, {INT, quarter}}, false, 1, 0},
		"a SIGINT after more than that is a person":        {signals{{INT, 0}, {INT, quarter + 1}}, false, 1, INT},
		"repeats do not make the time longer":              {signals{{TERM, 0}, {TERM, second}, {TERM, 1}}, false, 1, TERM},
		"another signal is a second one at once":           {signals{{TERM, 0}, {HUP, 0}}, false, 1, HUP},
		"an interrupt after a SIGTERM is one":              {signals{{TERM, 0}, {INT, 1}}, false, 1, INT},
		"a SIGTERM after an interrupt is one":              {signals{{INT, 0}, {TERM, 1}}, false, 1, TERM},
		"a repeat does not hide another signal":            {signals{{TERM, 0}, {TERM, 0}, {INT, 0}}, false, 1, INT},
		"a terminal's interrupt is for the command":        {signals{{INT, 0}, {INT, second}}, true, 0, 0},
		"after some of those SIGTERM is the first one":     {signals{{INT, 0}, {TERM, 1}, {TERM, 1}}, true, 1, 0},
		"after SIGTERM a terminal's interrupt kills":       {signals{{TERM, 0}, {INT, second}}, true, 1, INT},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var s main.Signals
				received := make(chan os.Signal, len(c.sent))
				stopped, stop := context.WithCancel(t.Context())
				defer stop()
				go s.Heed(stopped, received, c.shared)
				for _, next := range c.sent {
					time.Sleep(next.after)
					received <- next.sig
					synctest.Wait()
				}
				assert.Equal(t, c.ended, s.Ended.Load(), "how often the command is ended")
				assert.Equal(t, int32(c.killed), s.Killed.Load(), "the signal that kills")
			})
		})
	}
}

func TestLateInterrupt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		shared bool // the terminal
		ended  syscall.Signal
		after  time.Duration // the command's end; 0 is never
		want   syscall.Signal
	}{
		"an interrupt of the terminal may come after the command's end": {true, syscall.SIGINT, 200 * time.Millisecond,
			syscall.SIGINT},
		"one that never comes was not the terminal's": {true, syscall.SIGINT, 0, 0},
		"other signals are not waited for":            {true, syscall.SIGTERM, time.Millisecond, 0},
		"nor is one while the terminal is not shared": {false, syscall.SIGINT, time.Millisecond, 0},
		"nor is one if the command ended without one": {true, 0, time.Millisecond, 0},
		"an interrupt a second later is another one":  {true, syscall.SIGINT, time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				received := make(chan os.Signal, 1)
				stopped, stop := context.WithCancel(t.Context())
				defer stop()
				if c.after > 0 {
					defer time.AfterFunc(c.after, func() { received <- syscall.SIGINT }).Stop()
				}
				assert.Equal(t, c.want, main.SignalOf(stopped, received, c.shared, c.ended))
			})
		})
	}
}
