package sessiontest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/contract"
	"github.com/seed62658d38/watchdog/session"
)

var rowRules = []rule{
	{
		"a row is read as it was written",
		"a sweeper judges the row that it reads, and a cancel compares with that row",
		func(ctx context.Context, store session.Store) error {
			for i, own := range []time.Duration{0, time.Microsecond, 90 * time.Minute} {
				start := noon.Add(time.Microsecond)
				s, err := attach(ctx, store, session.Session{
					RunID: fmt.Sprint(i), Parent: "päir", Threshold: own, StartedAt: start, Host: "höst",
				})
				if err == nil && (s.Parent != "päir" || s.Threshold != own || !s.StartedAt.Equal(start) || s.Host != "höst") {
					err = fmt.Errorf("attached as %+v", s)
				}
				if err = errors.Join(err, looksLike(ctx, store, s)); err != nil {
					return err
				}
			}
			return nil
		},
	},
	{
		"a threshold of NoLimit is read as NoLimit",
		"if a store rounds the longest duration, it becomes a limit",
		func(ctx context.Context, store session.Store) error {
			s, err := attach(ctx, store, session.Session{RunID: homeRun, Threshold: watchdog.NoLimit, StartedAt: noon})
			if err != nil {
				return err
			}
			read, err := look(ctx, store, homeRun)
			if err == nil && (s.Threshold != watchdog.NoLimit || read.Threshold != watchdog.NoLimit) {
				err = fmt.Errorf("the thresholds are %v and %v, want NoLimit", s.Threshold, read.Threshold)
			}
			return err
		},
	},
	{
		"times are read in UTC",
		"rows are compared and printed as they are read: with a local zone one time has two texts on two machines",
		func(ctx context.Context, store session.Store) error {
			if _, err := attach(ctx, store, newSession(homeRun)); err != nil {
				return err
			}
			s, err := look(ctx, store, homeRun)
			for _, at := range []time.Time{s.CreatedAt, s.LastEventAt, s.StartedAt} {
				if err == nil && at.Location() != time.UTC {
					err = fmt.Errorf("a time is %v, in %v", at, at.Location())
				}
			}
			return err
		},
	},
	{
		"the start of a window is the same moment in every zone, cut off below the microsecond",
		"a window is identified by its start: a start that lost digits or moved by hours is another window",
		func(ctx context.Context, store session.Store) error {
			s := newSession(homeRun)
			s.StartedAt = noon.Add(1_234_567 * time.Nanosecond).In(time.FixedZone("east", 5*3600+1800))
			after, err := attach(ctx, store, s)
			if want := noon.Add(1234 * time.Microsecond); err == nil && !after.StartedAt.Equal(want) {
				err = fmt.Errorf("the window starts at %v, want %v", after.StartedAt, want)
			}
			return err
		},
	},
	{
		"a run that has no row is not found",
		"a keeper must be able to distinguish a missing row from a store that fails",
		func(ctx context.Context, store session.Store) error {
			if _, err := store.Session(ctx, "unknown"); !errors.Is(err, session.ErrNotFound) {
				return fmt.Errorf("the error is %w, want ErrNotFound", err)
			}
			return nil
		},
	},
	{
		"an unreadable row is an error that says so and names the run",
		"an invalid time that is read as the year 1 makes a session long overdue",
		func(ctx context.Context, store session.Store) error {
			if _, err := putSilent(ctx, store, "run-spoilt", time.Hour); err != nil {
				return err
			}
			if err := store.(Putter).Spoil(ctx, "run-spoilt"); err != nil {
				return err
			}
			_, err := store.Session(ctx, "run-spoilt")
			return unreadable(err, "run-spoilt")
		},
	},
	{
		"to attach to an unreadable row is an error and changes nothing",
		"nobody would find out any more what the row said",
		func(ctx context.Context, store session.Store) error {
			if _, err := putSilent(ctx, store, "run-spoilt", time.Hour); err != nil {
				return err
			}
			if err := store.(Putter).Spoil(ctx, "run-spoilt"); err != nil {
				return err
			}
			_, _, err := store.Attach(ctx, newSession("run-spoilt"))
			err = unreadable(err, "run-spoilt")
			if s, readErr := store.Session(ctx, "run-spoilt"); readErr == nil && s.Attempt > 1 {
				err = errors.Join(err, fmt.Errorf("the row is %+v", s))
			}
			return err
		},
	},
	{
		"every character of a run ID counts, and none has a special meaning",
		"two runs that share a row are cancelled together, or keep each other alive",
		func(ctx context.Context, store session.Store) error {
			for i, runID := range oddIDs {
				s := session.Session{RunID: runID, StartedAt: noon, Host: fmt.Sprint(i)}
				if _, err := attach(ctx, store, s); err != nil {
					return err
				}
			}
			var i int
			return contract.Each(oddIDs, func(runID string) error {
				i++
				s, err := look(ctx, store, runID)
				if err == nil && (s.RunID != runID || s.Host != fmt.Sprint(i-1) || s.Attempt != 1) {
					err = fmt.Errorf("the row of %q is %+v", runID, s)
				}
				return err
			})
		},
	},
}

// oddIDs are different IDs that patterns, collations or conversions may treat as equal.
var oddIDs = []string{
	"run", "RUN", "rün", " run", "run ", "run/a", "run/a/b",
	"r_n", "r%", "%", "r*", "r?n", "r[u]n", `r\_n`,
	"o'brien", `"run"`, "`run`", "run;--", `\`, `\\`, "$1", "?1", ":id", "@id", "{", "[]",
	"null", "0", "00", "0.0", "1e1", "10",
	"日本語", "🜁🜂", "é", "e\u0301", "e", "a\u200db", "\u202ea", "\ufeff", "a\u2028b", "straße", "STRASSE",
	strings.Repeat("x", watchdog.MaxAggregateID), strings.Repeat("ж", watchdog.MaxAggregateID),
}

func unreadable(err error, runID string) error {
	if !errors.Is(err, session.ErrUnreadable) || !strings.Contains(err.Error(), runID) {
		return fmt.Errorf("the error is %w, want ErrUnreadable and the run ID", err)
	}
	return nil
}
