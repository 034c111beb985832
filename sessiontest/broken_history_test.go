package sessiontest_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

var brokenHistories = []broken{
	{"looks for a reason anywhere in the payload", "cancels are counted by their reasons",
		after(func(c *historyCall) {
			if c.h.By == session.ByReason && len(c.counts) == 2 && c.counts[0].Key == "hold_exceeded" {
				c.counts[0].Key = "reason"
			}
		})},
	{"counts days of its own zone", "cancels are counted by days of UTC",
		after(func(c *historyCall) {
			if c.h.By == session.ByDay && len(c.counts) == 2 {
				c.counts[0].Count++
				c.counts[1].Count--
			}
		})},
	{"joins the rows, and loses the events without one",
		"cancels are counted by the hosts of their sessions, and under an empty host if there is no session",
		after(func(c *historyCall) {
			if c.h.By == session.ByHost {
				c.counts = slices.DeleteFunc(c.counts, func(n session.CancelCount) bool { return n.Key == "" })
			}
		})},
	{"includes the end of a period", "a period of time includes its start and not its end",
		before(func(c *historyCall) { c.h.To = c.h.To.Add(time.Microsecond) })},
	{"counts every kind of event", "only cancels are counted",
		after(func(c *historyCall) {
			events, _ := c.m.Read(c.ctx, watchdog.AggregateType, "run-1")
			for i, event := range events {
				if i < len(c.counts) && event.Type != watchdog.EventCancel {
					c.counts[i].Count++
				}
			}
		})},
	{"takes no rows for an error", "a period without cancels has no counts, and no error",
		after(when(func(c *historyCall) bool { return len(c.counts) == 0 && c.err == nil },
			func(c *historyCall) { c.err = errors.New("sql: no rows in result set") }))},
}

var brokenListens = []broken{
	{"notifies of one cancel at most", "a listener is notified of each cancel",
		func() alteration {
			var notified atomic.Bool
			return notifies(func(_ *listenCall, runID string) []string {
				if notified.Swap(true) {
					runID = "another"
				}
				return []string{runID}
			})()
		}},
	{"notifies of each attempt to cancel", "a listener is not notified of a cancel that changed nothing",
		notifies(func(_ *listenCall, runID string) []string {
			if runID == "stalled" {
				return []string{"awake", runID}
			}
			return []string{runID}
		})},
	{"returns an error when its context ends", "listening ends with its context",
		func() alteration {
			var notified atomic.Bool
			return both(notifies(func(_ *listenCall, runID string) []string {
				notified.Store(true)
				return []string{runID}
			}), after(func(c *listenCall) {
				if !notified.Load() {
					c.err = errors.New("the connection was closed")
				}
			}))()
		}},
}

var brokenContexts = []broken{
	{"ignores the context of an end", "a write with a done context changes nothing and returns the context's error",
		before(func(c *endCall) { c.ctx = context.WithoutCancel(c.ctx) })},
	{"ignores the context of a read", "a read with a done context returns the context's error",
		before(func(c *historyCall) { c.ctx = context.WithoutCancel(c.ctx) })},
}
