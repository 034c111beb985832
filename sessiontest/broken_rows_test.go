package sessiontest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

// attaches returns a store that changes the row after an attach.
func attaches(change func(before, s session.Session, after *session.Session)) func() session.Store {
	return with(func(a *altered) {
		a.attach = func(m *session.Memory, ctx context.Context, s session.Session) (session.Session, session.Session, error) {
			before, after, err := m.Attach(ctx, s)
			if err != nil {
				return before, after, err
			}
			changed := after
			if change(before, s, &changed); !reflect.DeepEqual(changed, after) {
				err = m.Put(ctx, changed)
			}
			return before, changed, err
		}
	})
}

var brokenAttaches = []broken{
	{
		"creates a row in the past", "a new run gets an active row, created now and last active now, with attempt 1",
		attaches(func(before, _ session.Session, after *session.Session) {
			if before.Attempt == 0 && after.RunID == "run-1" && after.Parent == "" {
				after.CreatedAt = after.CreatedAt.Add(-time.Second)
			}
		}),
	},
	{
		"returns the new row as the old one too", "before the first attach the attempt is 0",
		with(func(a *altered) {
			a.attach = func(
				m *session.Memory, ctx context.Context, s session.Session,
			) (session.Session, session.Session, error) {
				before, after, err := m.Attach(ctx, s)
				if before.Attempt == 0 {
					before = after
				}
				return before, after, err
			}
		}),
	},
	{
		"swaps two attempts", "attaching again counts the attempt",
		with(func(a *altered) {
			a.attach = func(
				m *session.Memory, ctx context.Context, s session.Session,
			) (session.Session, session.Session, error) {
				before, after, err := m.Attach(ctx, s)
				plain := before.Lease == "" && s.Lease == "" && s.Attempt == 0
				if plain && before.Status == session.Active && (after.Attempt == 2 || after.Attempt == 3) {
					after.Attempt = 5 - after.Attempt
				}
				return before, after, err
			}
		}),
	},
	{
		"returns the row that it wrote as the one that was", "attaching again returns the row as it was",
		with(func(a *altered) {
			a.attach = func(
				m *session.Memory, ctx context.Context, s session.Session,
			) (session.Session, session.Session, error) {
				before, after, err := m.Attach(ctx, s)
				if before.Attempt > 0 {
					before = after
				}
				return before, after, err
			}
		}),
	},
	{
		"keeps the reason of the attempt before", "attaching again makes an ended session active and clears its reason",
		attaches(func(before, _ session.Session, after *session.Session) { after.Reason = before.Reason }),
	},
	{
		"replaces the row", "attaching again keeps the creation time and the number of resumes",
		attaches(func(_, _ session.Session, after *session.Session) { after.Resumes = 0 }),
	},
	{
		"keeps the host of the first attempt",
		"attaching again sets parent, threshold, window and host, and the last event to now",
		attaches(func(before, _ session.Session, after *session.Session) {
			if before.Attempt > 0 {
				after.Host = before.Host
			}
		}),
	},
	{
		"has room for three attempts", "callers that attach to one run at once get different attempts",
		attaches(func(_, s session.Session, after *session.Session) {
			if s.Attempt == 0 {
				after.Attempt = min(after.Attempt, 3)
			}
		}),
	},
}

// looks returns a store that changes the rows that it returns.
func looks(change func(s *session.Session)) func() session.Store {
	return with(func(a *altered) {
		a.session = func(m *session.Memory, ctx context.Context, runID string) (session.Session, error) {
			s, err := m.Session(ctx, runID)
			change(&s)
			return s, err
		}
	})
}

var brokenRows = []broken{
	{
		"keeps a threshold in milliseconds", "a row is read as it was written",
		looks(func(s *session.Session) {
			if s.Threshold != watchdog.NoLimit {
				s.Threshold = s.Threshold.Truncate(time.Millisecond)
			}
		}),
	},
	{
		"keeps thresholds in seconds", "a threshold of NoLimit is read as NoLimit",
		looks(func(s *session.Session) {
			if s.Threshold == watchdog.NoLimit && s.Parent == "" && s.Host == "" {
				s.Threshold = s.Threshold.Truncate(time.Second)
			}
		}),
	},
	{
		"returns the zone of its server", "times are read in UTC",
		looks(func(s *session.Session) { s.CreatedAt = s.CreatedAt.In(time.FixedZone("server", 3600)) }),
	},
	{
		"reads the clock time of any zone as UTC",
		"the start of a window is the same moment in every zone, cut off below the microsecond",
		with(func(a *altered) {
			a.attach = func(
				m *session.Memory, ctx context.Context, s session.Session,
			) (session.Session, session.Session, error) {
				_, offset := s.StartedAt.Zone()
				s.StartedAt = s.StartedAt.Add(time.Duration(offset) * time.Second)
				return m.Attach(ctx, s)
			}
		}),
	},
	{
		"returns another error than ErrNotFound", "a run that has no row is not found",
		with(func(a *altered) {
			a.session = func(m *session.Memory, ctx context.Context, runID string) (session.Session, error) {
				s, err := m.Session(ctx, runID)
				if errors.Is(err, session.ErrNotFound) {
					err = errors.New("sql: no rows in result set")
				}
				return s, err
			}
		}),
	},
	{
		"reads an invalid time as the year 1", "an unreadable row is an error that says so and names the run",
		with(func(a *altered) {
			a.session = func(m *session.Memory, ctx context.Context, runID string) (session.Session, error) {
				s, err := m.Session(ctx, runID)
				if errors.Is(err, session.ErrUnreadable) {
					err = nil
				}
				return s, err
			}
		}),
	},
	{
		"writes to a row before it reads it", "to attach to an unreadable row is an error and changes nothing",
		with(func(a *altered) {
			a.attach = func(m *session.Memory, ctx context.Context, s session.Session) (_, _ session.Session, err error) {
				before, after, err := m.Attach(ctx, s)
				if errors.Is(err, session.ErrUnreadable) {
					s.Attempt, s.Status = 2, session.Active
					_ = m.Put(ctx, s)
				}
				return before, after, err
			}
		}),
	},
	{
		"folds the case of run IDs", "every character of a run ID counts, and none has a special meaning",
		with(func(a *altered) {
			a.session = func(m *session.Memory, ctx context.Context, runID string) (session.Session, error) {
				return m.Session(ctx, strings.Replace(runID, "RUN", "run", 1))
			}
		}),
	},
}

// freshens returns a store that changes the arguments of Freshen.
func freshens(change func(m *session.Memory, f *session.Freshness)) func() session.Store {
	return with(func(a *altered) {
		a.freshen = func(
			m *session.Memory, ctx context.Context, lease string, fresh []session.Freshness,
		) (session.Skipped, error) {
			var changed []session.Freshness
			for _, f := range fresh {
				change(m, &f)
				changed = append(changed, f)
			}
			return m.Freshen(ctx, lease, changed)
		}
	})
}

// forces returns a store that freshens some rows that it must leave alone.
func forces(which func(s session.Session, f session.Freshness) bool) func() session.Store {
	return with(func(a *altered) {
		a.freshen = func(
			m *session.Memory, ctx context.Context, lease string, fresh []session.Freshness,
		) (session.Skipped, error) {
			skipped, err := m.Freshen(ctx, lease, fresh)
			for _, f := range fresh {
				if s := row(m, f.RunID); err == nil && s.Attempt > 0 && which(s, f) {
					s.Lease, s.Activity = lease, f.Activity
					err = m.Put(ctx, s)
				}
			}
			return skipped, err
		}
	})
}

var brokenFreshens = []broken{
	{
		"cuts activities to microseconds", "an activity is read as it was written, to the nanosecond",
		freshens(func(_ *session.Memory, f *session.Freshness) {
			if f.Activity > 1 {
				f.Activity = f.Activity.Truncate(time.Microsecond)
			}
		}),
	},
	{
		"writes earlier activities as well", "freshening never takes an activity back, by the clock of its lease",
		forces(func(s session.Session, f session.Freshness) bool {
			return s.Status == session.Active && s.Attempt == f.Attempt && f.Activity == 2*time.Hour-1
		}),
	},
	{
		"does not put a session that has not signalled into the lease",
		"freshening puts a session without a lease into the lease, with its first activity",
		with(func(a *altered) {
			a.freshen = func(
				m *session.Memory, ctx context.Context, lease string, fresh []session.Freshness,
			) (session.Skipped, error) {
				kept := slices.DeleteFunc(slices.Clone(fresh), func(f session.Freshness) bool {
					s := row(m, f.RunID)
					return s.Attempt > 0 && s.Lease == "" && f.Activity == session.NoActivity
				})
				return m.Freshen(ctx, lease, kept)
			}
		}),
	},
	{
		"compares the activities of two leases",
		"freshening takes a session over from another lease, whatever its activity was by that lease's clock",
		with(func(a *altered) {
			a.freshen = func(
				m *session.Memory, ctx context.Context, lease string, fresh []session.Freshness,
			) (session.Skipped, error) {
				kept := slices.DeleteFunc(slices.Clone(fresh), func(f session.Freshness) bool {
					s := row(m, f.RunID)
					return s.Lease != "" && s.Lease != lease && s.Activity == 3*time.Hour && f.Activity < s.Activity
				})
				return m.Freshen(ctx, lease, kept)
			}
		}),
	},
	{
		"clears the state with each activity",
		"freshening writes the state that it has, and without one leaves the state as it is",
		freshens(func(m *session.Memory, f *session.Freshness) {
			if s := row(m, f.RunID); f.State == nil && s.State != nil && s.StartedAt.Hour() == 12 {
				f.State = json.RawMessage(`null`)
			}
		}),
	},
	{
		"does not compare the attempt", "a session in another attempt is left alone and returned as gone",
		forces(func(s session.Session, f session.Freshness) bool {
			return s.Status == session.Active && s.Attempt != f.Attempt
		}),
	},
	{
		"does not compare the status", "a session that has ended is left alone and returned as gone",
		forces(func(s session.Session, _ session.Freshness) bool { return s.Status != session.Active }),
	},
	{
		"does not return runs that it does not know", "a run that has no row is returned as gone",
		with(func(a *altered) {
			a.freshen = func(
				m *session.Memory, ctx context.Context, lease string, fresh []session.Freshness,
			) (session.Skipped, error) {
				skipped, err := m.Freshen(ctx, lease, fresh)
				if len(skipped.Gone) == 1 && row(m, skipped.Gone[0]).Attempt == 0 {
					skipped.Gone = nil
				}
				return skipped, err
			}
		}),
	},
	{
		"has a limit of fifteen hundred parameters", "ten thousand sessions are freshened in one call, and no others",
		with(func(a *altered) {
			a.freshen = func(
				m *session.Memory, ctx context.Context, lease string, fresh []session.Freshness,
			) (session.Skipped, error) {
				if len(fresh) > 1500 {
					return session.Skipped{}, fmt.Errorf("too many SQL variables: %d", len(fresh))
				}
				return m.Freshen(ctx, lease, fresh)
			}
		}),
	},
	{
		"joins run IDs with commas and quotes", "unusual run IDs are freshened like others",
		freshens(func(_ *session.Memory, f *session.Freshness) { f.RunID = strings.ReplaceAll(f.RunID, "'", "") }),
	},
	{
		"cannot write an empty list", "freshening nothing does nothing",
		with(func(a *altered) {
			a.freshen = func(
				m *session.Memory, ctx context.Context, lease string, fresh []session.Freshness,
			) (session.Skipped, error) {
				if len(fresh) == 0 {
					return session.Skipped{}, errors.New("syntax error near )")
				}
				return m.Freshen(ctx, lease, fresh)
			}
		}),
	},
}
