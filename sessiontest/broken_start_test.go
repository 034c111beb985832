package sessiontest_test

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog/session"
)

// starting is a memory whose methods about starts can be replaced, too.
type starting struct {
	*altered
	claimStart func(m *session.Memory, ctx context.Context, lasts time.Duration) (session.Session, error)
	putOff     func(m *session.Memory, ctx context.Context, s session.Session, pause time.Duration) (bool, error)
}

func (s *starting) ClaimStart(ctx context.Context, lasts time.Duration) (session.Session, error) {
	if s.claimStart != nil {
		return s.claimStart(s.Memory, ctx, lasts)
	}
	return s.Memory.ClaimStart(ctx, lasts)
}

func (s *starting) PutOffStart(ctx context.Context, claimed session.Session, pause time.Duration) (bool, error) {
	if s.putOff != nil {
		return s.putOff(s.Memory, ctx, claimed, pause)
	}
	return s.Memory.PutOffStart(ctx, claimed, pause)
}

// starts returns a store with some methods about starts replaced.
func starts(change func(s *starting)) func() session.Store {
	return func() session.Store {
		s := &starting{altered: &altered{Memory: frozen(), cancelAll: cancelAll}}
		change(s)
		return s
	}
}

// claimsStartsBut returns a store that changes the row of a start which it has claimed.
func claimsStartsBut(
	change func(m *session.Memory, ctx context.Context, s session.Session) (session.Session, error),
) func() session.Store {
	return starts(func(of *starting) {
		of.claimStart = func(m *session.Memory, ctx context.Context, lasts time.Duration) (session.Session, error) {
			s, err := m.ClaimStart(ctx, lasts)
			if err != nil {
				return s, err
			}
			return change(m, ctx, s)
		}
	})
}

// putsOffStarts returns a store that puts off a start of one run in another way.
func putsOffStarts(
	runID string, putOff func(m *session.Memory, ctx context.Context, s session.Session, p time.Duration) (bool, error),
) func() session.Store {
	return starts(func(of *starting) {
		of.putOff = func(m *session.Memory, ctx context.Context, s session.Session, p time.Duration) (bool, error) {
			if s.RunID == runID {
				return putOff(m, ctx, s, p)
			}
			return m.PutOffStart(ctx, s, p)
		}
	})
}

// cancelsAndThen returns a store that changes the row of one run after each cancel.
func cancelsAndThen(runID string, change func(s *session.Session, c session.CancelRequest)) func() session.Store {
	return with(func(a *altered) {
		a.cancel = func(
			m *session.Memory, ctx context.Context, judged session.Session, c session.CancelRequest,
		) (session.Outcome, error) {
			outcome, err := m.Cancel(ctx, judged, c)
			if s := row(m, runID); err == nil && judged.RunID == runID {
				change(&s, c)
				err = m.Put(ctx, s)
			}
			return outcome, err
		}
	})
}

var brokenStarts = []broken{
	{
		"does not keep that a start is wanted", "a cancel can want a start of its run, which is claimed by then",
		cancelsAndThen("wanted", func(s *session.Session, _ session.CancelRequest) { s.Start = session.WantedStart{} }),
	},
	{
		"does not claim the start that a cancel wants", "a cancel can want a start of its run, which is claimed by then",
		cancelsAndThen("wanted", func(s *session.Session, _ session.CancelRequest) { s.Start.Due = s.CreatedAt }),
	},
	{
		"lists no start", "a cancel can want a start of its run, which is claimed by then",
		shows(func(_ *session.Memory, _ session.ListQuery, page *session.ListPage) error {
			for i := range page.Sessions {
				page.Sessions[i].Start = session.WantedStart{}
			}
			return nil
		}),
	},
	{
		"forgets the starts of sessions that are cancelled together",
		"sessions that are cancelled together can each want a start",
		cancelsAllBut(func(_ *session.Memory, c *session.BatchedCancel) { c.Request.StartFor = 0 }),
	},
	{
		"wants a start of each session that it cancels",
		"no start is wanted after a cancel that does not say so, or that finds an end that is stored",
		cancelsAndThen("unwanted", func(s *session.Session, c session.CancelRequest) {
			s.Start = session.WantedStart{Key: c.Events[0].ID, Tries: 1, Due: s.CreatedAt.Add(time.Hour)}
		}),
	},
	{
		"wants a start of a run whose end is stored",
		"no start is wanted after a cancel that does not say so, or that finds an end that is stored",
		cancelsAndThen("ended before", func(s *session.Session, c session.CancelRequest) {
			s.Start = session.WantedStart{Key: c.Events[0].ID, Tries: 1, Due: s.CreatedAt.Add(time.Hour)}
		}),
	},
	{
		"gives each try a key of its own",
		"a start that is due is claimed with the same key at each try, and its tries are counted",
		claimsStartsBut(func(m *session.Memory, ctx context.Context, s session.Session) (session.Session, error) {
			if s.RunID == "again" && s.Start.Tries == 3 {
				s.Start.Key += "'"
			}
			return s, m.Put(ctx, s)
		}),
	},
	{
		"does not count the tries of a start",
		"a start that is due is claimed with the same key at each try, and its tries are counted",
		claimsStartsBut(func(m *session.Memory, ctx context.Context, s session.Session) (session.Session, error) {
			if s.RunID == "again" {
				s.Start.Tries = min(s.Start.Tries, 3)
			}
			return s, m.Put(ctx, s)
		}),
	},
	{
		"claims a start for no time", "a start that was claimed or put off is not due before that is over",
		claimsStartsBut(func(m *session.Memory, ctx context.Context, s session.Session) (session.Session, error) {
			if s.RunID == "later" {
				s.Start.Due = s.CreatedAt
			}
			return s, m.Put(ctx, s)
		}),
	},
	{
		"puts a start off for no time", "a start that was claimed or put off is not due before that is over",
		putsOffStarts("later", func(
			m *session.Memory, ctx context.Context, s session.Session, _ time.Duration,
		) (bool, error) {
			return m.PutOffStart(ctx, s, 0)
		}),
	},
	{
		"puts a start off for a week", "a claim or a pause of a start lasts for a day at most",
		putsOffStarts("for a week", func(
			m *session.Memory, ctx context.Context, s session.Session, p time.Duration,
		) (bool, error) {
			s.Start.Due = s.CreatedAt.Add(p)
			return true, m.Put(ctx, s)
		}),
	},
	{
		"claims the start first that has been due for the shortest time",
		"the start that has been due for the longest time is claimed first",
		claimsStartsBut(func(m *session.Memory, ctx context.Context, s session.Session) (session.Session, error) {
			if s.RunID != "order-1" {
				return s, nil
			}
			later, err := m.ClaimStart(ctx, time.Hour)
			if err == nil {
				s.Start.Tries, s.Start.Due = 1, s.CreatedAt
				err = m.Put(ctx, s)
			}
			return later, err
		}),
	},
	{
		"gives one start to two that claim at once", "of eight claims at once each takes another start that is due",
		claimsStartsBut(func(m *session.Memory, ctx context.Context, s session.Session) (session.Session, error) {
			if s.RunID == "race-3" && s.Start.Tries == 2 {
				again := s
				again.Start.Due = s.CreatedAt
				return s, m.Put(ctx, again)
			}
			return s, nil
		}),
	},
	{
		"lets whoever claimed a start before put it off", "only the latest claim of a start can put it off or give it up",
		putsOffStarts("late", func(
			m *session.Memory, ctx context.Context, s session.Session, p time.Duration,
		) (bool, error) {
			s.Start.Tries = row(m, s.RunID).Start.Tries
			return m.PutOffStart(ctx, s, p)
		}),
	},
	{
		"puts off a start with another key", "only the latest claim of a start can put it off or give it up",
		putsOffStarts("late", func(
			m *session.Memory, ctx context.Context, s session.Session, p time.Duration,
		) (bool, error) {
			s.Start.Key = row(m, s.RunID).Start.Key
			return m.PutOffStart(ctx, s, p)
		}),
	},
	{
		"puts off a start that was given up", "a start that was given up is not wanted any more",
		putsOffStarts("given up", func(
			m *session.Memory, ctx context.Context, s session.Session, p time.Duration,
		) (bool, error) {
			if p == session.NoMoreStarts {
				p = time.Hour
			}
			return m.PutOffStart(ctx, s, p)
		}),
	},
	{
		"keeps the start of the attempt before", "the next attempt of a run ends its start",
		with(func(a *altered) {
			var before session.WantedStart
			a.cancel = func(
				m *session.Memory, ctx context.Context, judged session.Session, c session.CancelRequest,
			) (session.Outcome, error) {
				outcome, err := m.Cancel(ctx, judged, c)
				if s := row(m, "attached"); err == nil && judged.RunID == s.RunID && s.Attempt == 1 {
					before = s.Start
				} else if err == nil && judged.RunID == s.RunID {
					s.Start = before
					err = m.Put(ctx, s)
				}
				return outcome, err
			}
		}),
	},
	{
		"claims no start behind one that cannot be read", "a row that cannot be read does not hold up the other starts",
		starts(func(of *starting) {
			of.claimStart = func(m *session.Memory, ctx context.Context, lasts time.Duration) (session.Session, error) {
				s, err := m.Session(ctx, "a-spoilt")
				if errors.Is(err, session.ErrUnreadable) {
					return s, err
				}
				return m.ClaimStart(ctx, lasts)
			}
		}),
	},
	{
		"claims a start for somebody who has gone",
		"a call about starts with a done context changes nothing and returns the context's error",
		starts(func(of *starting) {
			of.claimStart = func(m *session.Memory, ctx context.Context, lasts time.Duration) (session.Session, error) {
				s, err := m.ClaimStart(context.WithoutCancel(ctx), lasts)
				if ctx.Err() != nil && strings.HasPrefix(s.RunID, "undone") {
					return s, ctx.Err()
				}
				return s, err
			}
		}),
	},
}
