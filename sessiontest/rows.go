package sessiontest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

var rowRules = []rule{
	{
		"a row is read as it was written",
		"a sweeper judges what it reads, and hands it back as what it judged",
		func(ctx context.Context, store session.Store) error {
			for i, own := range []time.Duration{0, time.Microsecond, 90 * time.Minute} {
				s, err := attach(ctx, store, session.Session{RunID: fmt.Sprint(i), Parent: "päir", Threshold: own, StartedAt: noon.Add(time.Microsecond), Host: "höst"})
				if err == nil && (s.Parent != "päir" || s.Threshold != own || !s.StartedAt.Equal(noon.Add(time.Microsecond)) || s.Host != "höst") {
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
		"a threshold that is off is read as that",
		"the longest duration there is, in a unit that rounds it, becomes one that passes",
		func(ctx context.Context, store session.Store) error {
			s, err := attach(ctx, store, session.Session{RunID: homeRun, Threshold: watchdog.NoLimit, StartedAt: noon})
			if err != nil {
				return err
			}
			read, err := look(ctx, store, homeRun)
			if err == nil && (s.Threshold != watchdog.NoLimit || read.Threshold != watchdog.NoLimit) {
				err = fmt.Errorf("the thresholds are %v and %v, want %v", s.Threshold, read.Threshold, time.Duration(watchdog.NoLimit))
			}
			return err
		},
	},
	{
		"times are read in UTC",
		"rows are compared and printed as they are read: a local zone makes one moment two texts on two machines",
		func(ctx context.Context, store session.Store) error {
			if _, err := attach(ctx, store, newSession(homeRun)); err != nil {
				return err
			}
			s, err := look(ctx, store, homeRun)
			if err == nil && (s.CreatedAt.Location() != time.UTC || s.LastEventAt.Location() != time.UTC || s.StartedAt.Location() != time.UTC) {
				err = fmt.Errorf("the times are %v, %v and %v", s.CreatedAt, s.LastEventAt, s.StartedAt)
			}
			return err
		},
	},
	{
		"the start of a window is the same moment in every zone, cut off below the microsecond",
		"a window is known by its start: one that lost digits or moved by hours is another window",
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
		"a keeper whose run has no row must be able to tell that from a store that fails",
		func(ctx context.Context, store session.Store) error {
			if _, err := store.Session(ctx, "never heard of"); !errors.Is(err, session.ErrNotFound) {
				return fmt.Errorf("the error is %w, want ErrNotFound", err)
			}
			return nil
		},
	},
	{
		"a row that cannot be read is an error that says so and names the run",
		"a time that is none, read as the year 1, is a session that is long overdue",
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
		"nothing in a run ID is more than a character",
		"a run taken for another is cancelled for it, or kept alive by it",
		func(ctx context.Context, store session.Store) error {
			for i, runID := range oddIDs {
				if _, err := attach(ctx, store, session.Session{RunID: runID, StartedAt: noon, Host: fmt.Sprint(i)}); err != nil {
					return err
				}
			}
			var i int
			return each(oddIDs, func(runID string) error {
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

// oddIDs are different from each other, but not to everyone.
var oddIDs = []string{
	"run", "RUN", "rün", " run", "run ", "run/a", "run/a/b", "r_n", "r%", "%", "r*", "r?n", "r[u]n", `r\_n`, "o'brien", `"run"`, "`run`", "run;--", `\`, `\\`,
	"$1", "?1", ":id", "@id", "{", "[]", "null", "0", "00", "0.0", "1e1", "10", "日本語", "🜁🜂", "é", "e\u0301", "e", "a\u200db", "\u202ea", "\ufeff", "a\u2028b", "straße", "STRASSE",
	strings.Repeat("x", watchdog.MaxAggregateID), strings.Repeat("ж", watchdog.MaxAggregateID),
}

func unreadable(err error, runID string) error {
	if !errors.Is(err, session.ErrUnreadable) || !strings.Contains(err.Error(), runID) {
		return fmt.Errorf("the error is %w, want ErrUnreadable, and the name of the run", err)
	}
	return nil
}
