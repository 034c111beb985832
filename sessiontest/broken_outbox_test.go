package sessiontest_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

// appendsNoticing returns a store that appends, and then puts notices of some of the events, too.
func appendsNoticing(
	wants func(m *session.Memory, before []watchdog.Event, e watchdog.Event, err error) bool,
) func() session.Store {
	return with(func(a *altered) {
		a.append = func(m *session.Memory, ctx context.Context, events []watchdog.Event) error {
			var before []watchdog.Event
			for _, e := range events {
				there, _ := m.Read(ctx, e.AggregateType, e.AggregateID)
				before = append(before, there...)
			}
			err := m.Append(ctx, events...)
			for _, e := range events {
				if wants(m, before, e, err) {
					_ = m.PutNotices(ctx, session.Notice{
						ID: e.ID, AggregateType: e.AggregateType, AggregateID: e.AggregateID, Type: e.Type,
					})
				}
			}
			return err
		}
	})
}

// putsNotices returns a store with another PutNotices.
func putsNotices(call func(m *session.Memory, ctx context.Context, notices []session.Notice) error) func() session.Store {
	return with(func(a *altered) { a.putNotices = call })
}

// claimsAsking returns a store that changes what is asked for in a claim of notices.
func claimsAsking(change func(ctx *context.Context, most *int, lasts *time.Duration)) func() session.Store {
	return with(func(a *altered) {
		a.claimNotices = func(
			m *session.Memory, ctx context.Context, most int, lasts time.Duration,
		) ([]session.Notice, error) {
			change(&ctx, &most, &lasts)
			return m.ClaimNotices(ctx, most, lasts)
		}
	})
}

// claimsNoticesBut returns a store that changes what a claim of notices returns.
func claimsNoticesBut(
	change func(m *session.Memory, most int, all []session.Notice) []session.Notice,
) func() session.Store {
	return with(func(a *altered) {
		a.claimNotices = func(
			m *session.Memory, ctx context.Context, most int, lasts time.Duration,
		) ([]session.Notice, error) {
			all, err := m.ClaimNotices(ctx, most, lasts)
			if err == nil {
				all = change(m, most, all)
			}
			return all, err
		}
	})
}

// waitsAs returns a store that says of a notice that is delayed again and again that it has waited for another time.
func waitsAs(waited func(m *session.Memory, n session.Notice) time.Duration) func() session.Store {
	return claimsNoticesBut(func(m *session.Memory, _ int, all []session.Notice) []session.Notice {
		for i := range all {
			if n := all[i]; n.ID == "delayed" && n.Waited < 250*365*24*time.Hour {
				all[i].Waited = waited(m, n)
			}
		}
		return all
	})
}

// withoutNotice returns a store that loses a notice.
func withoutNotice(lost string) func() session.Store {
	return claimsNoticesBut(func(_ *session.Memory, _ int, all []session.Notice) []session.Notice {
		return slices.DeleteFunc(all, func(n session.Notice) bool { return n.ID == lost })
	})
}

// delaysClaimed returns a store that delays some notices when it claims them.
func delaysClaimed(pause time.Duration, wants func(most int, n session.Notice) bool) func() session.Store {
	return claimsNoticesBut(func(m *session.Memory, most int, all []session.Notice) []session.Notice {
		for _, n := range all {
			if wants(most, n) {
				_ = m.DelayNotice(context.Background(), n, pause)
			}
		}
		return all
	})
}

// delaysNotice returns a store with another DelayNotice.
func delaysNotice(
	call func(m *session.Memory, ctx context.Context, n session.Notice, pause time.Duration) error,
) func() session.Store {
	return with(func(a *altered) { a.delayNotice = call })
}

// finishes returns a store with another FinishNotices.
func finishes(call func(m *session.Memory, ctx context.Context, notices []session.Notice) error) func() session.Store {
	return with(func(a *altered) { a.finishNotices = call })
}

var brokenOutboxes = []broken{
	{
		"tells nobody of what was completed", "the end of a window is a notice, whoever stores it",
		withoutNotice("cancel of completed"),
	},
	{
		"tells nobody of what a sweeper cancelled", "the end of a window is a notice, whoever stores it",
		withoutNotice("cancel of cancelled"),
	},
	{
		"tells nobody of what a transaction decided",
		"the end of a window that is decided in a transaction is a notice", withoutNotice("cancel of decided"),
	},
	{
		"tells only of the first that are cancelled together",
		"the ends of sessions that are cancelled together are notices", withoutNotice("cancel of together-2"),
	},
	{
		"tells of an end again that it has already", "an end that is stored already is not a notice again",
		appendsNoticing(func(_ *session.Memory, before []watchdog.Event, e watchdog.Event, _ error) bool {
			return slices.ContainsFunc(before, func(there watchdog.Event) bool { return there.ID == e.ID })
		}),
	},
	{
		"tells of the ends of others", "no other event is a notice",
		appendsNoticing(func(_ *session.Memory, _ []watchdog.Event, e watchdog.Event, _ error) bool {
			return e.AggregateType != watchdog.AggregateType
		}),
	},
	{
		"tells of more time", "no other event is a notice",
		appendsNoticing(func(_ *session.Memory, _ []watchdog.Event, e watchdog.Event, _ error) bool {
			return e.Type == watchdog.EventExtend
		}),
	},
	{
		"puts an end that it then does not store", "an end that was not stored is not a notice",
		appendsNoticing(func(_ *session.Memory, _ []watchdog.Event, _ watchdog.Event, err error) bool {
			return errors.Is(err, watchdog.ErrInvalid)
		}),
	},
	{
		"writes the runs of its notices in small letters",
		"a notice says what the event is, and when it was put by the database's clock",
		claimsNoticesBut(func(_ *session.Memory, _ int, all []session.Notice) []session.Notice {
			for i := range all {
				all[i].AggregateID = strings.ToLower(all[i].AggregateID)
			}
			return all
		}),
	},
	{
		"believes the clock of who puts a notice", "a notice that is put is claimed as it was put",
		claimsNoticesBut(func(_ *session.Memory, _ int, all []session.Notice) []session.Notice {
			for i := range all {
				if all[i].Type == "lease.lost" {
					all[i].CreatedAt = all[i].CreatedAt.Add(-time.Hour)
				}
			}
			return all
		}),
	},
	{
		"puts a notice again under another name", "a notice whose ID is there is not put again",
		putsNotices(func(m *session.Memory, ctx context.Context, notices []session.Notice) error {
			if len(notices) == 1 && notices[0].Type == "another" {
				notices[0].ID += " again"
			}
			return m.PutNotices(ctx, notices...)
		}),
	},
	{
		"puts each notice in a transaction of its own", "if one of several notices is invalid none is put",
		putsNotices(func(m *session.Memory, ctx context.Context, notices []session.Notice) error {
			for _, n := range notices {
				if err := m.PutNotices(ctx, n); err != nil {
					return err
				}
			}
			return ctx.Err()
		}),
	},
	{
		"claims the latest first", "notices are claimed in the order in which they were put, at most so many",
		claimsNoticesBut(func(_ *session.Memory, most int, all []session.Notice) []session.Notice {
			if most == 3 && len(all) > 0 && all[0].ID == "alert-3" {
				slices.Reverse(all)
			}
			return all
		}),
	},
	{
		"claims all that is due", "notices are claimed in the order in which they were put, at most so many",
		claimsAsking(func(_ *context.Context, most *int, _ *time.Duration) {
			if *most == 3 {
				*most = 100
			}
		}),
	},
	{
		"forgets its first claim", "no call claims a notice while another claim of it lasts",
		delaysClaimed(0, func(most int, n session.Notice) bool {
			return most == 100 && n.ID == "alert-0" && n.Tries == 1
		}),
	},
	{
		"does not count", "a notice is due again when its claim is over, and says how often it was claimed",
		claimsNoticesBut(func(_ *session.Memory, most int, all []session.Notice) []session.Notice {
			if most == 1 && len(all) == 1 {
				all[0].Tries = 1
			}
			return all
		}),
	},
	{
		"gives a notice up", "a notice is due again when its claim is over, and says how often it was claimed",
		delaysClaimed(time.Hour, func(most int, n session.Notice) bool { return most == 1 && n.Tries == 2 }),
	},
	{
		"claims by the order in which they were put alone", "what was never claimed is claimed before what was",
		claimsNoticesBut(func(_ *session.Memory, most int, all []session.Notice) []session.Notice {
			if most == 3 {
				slices.SortFunc(all, func(a, b session.Notice) int { return strings.Compare(a.ID, b.ID) })
			}
			return all
		}),
	},
	{
		"takes a finished notice that is not there for an error",
		"a finished notice does not come again, whoever claimed it last",
		finishes(func(m *session.Memory, ctx context.Context, notices []session.Notice) error {
			for _, n := range notices {
				if n.ID == "never put" {
					return errors.New("there is no such notice")
				}
			}
			return m.FinishNotices(ctx, notices...)
		}),
	},
	{
		"finishes only what its caller claimed last", "a finished notice does not come again, whoever claimed it last",
		finishes(func(m *session.Memory, ctx context.Context, notices []session.Notice) error {
			if len(notices) > 1 {
				return ctx.Err()
			}
			return m.FinishNotices(ctx, notices...)
		}),
	},
	{
		"pauses no longer than a claim lasts",
		"a delayed notice is due again when its pause is over, and not when its claim is",
		delaysNotice(func(m *session.Memory, ctx context.Context, n session.Notice, pause time.Duration) error {
			if n.ID == "alert-1" {
				pause = min(pause, 0)
			}
			return m.DelayNotice(ctx, n, pause)
		}),
	},
	{
		"pauses at least as long as a claim lasts",
		"a delayed notice is due again when its pause is over, and not when its claim is",
		delaysNotice(func(m *session.Memory, ctx context.Context, n session.Notice, pause time.Duration) error {
			if pause == 0 && n.ID == "alert-0" {
				return ctx.Err()
			}
			return m.DelayNotice(ctx, n, pause)
		}),
	},
	{
		"says how old a notice is by its clock, and not how long it was delayed",
		"a notice says how long its delays are in all, and counts neither its age nor its claims",
		waitsAs(func(m *session.Memory, n session.Notice) time.Duration { return max(m.Clock().Sub(n.CreatedAt), 0) }),
	},
	{
		"says how long a notice was delayed last",
		"a notice says how long its delays are in all, and counts neither its age nor its claims",
		waitsAs(func(_ *session.Memory, n session.Notice) time.Duration {
			return min(n.Waited, 36*time.Hour+time.Microsecond)
		}),
	},
	{
		"counts claims as delays",
		"a notice says how long its delays are in all, and counts neither its age nor its claims",
		waitsAs(func(_ *session.Memory, n session.Notice) time.Duration {
			return n.Waited + time.Duration(n.Tries-1)*time.Minute
		}),
	},
	{
		"adds delays until the sum wraps around",
		"delays that are longer in all than a duration can say are as long as it can",
		claimsNoticesBut(func(_ *session.Memory, _ int, all []session.Notice) []session.Notice {
			for i := range all {
				if all[i].Waited > 250*365*24*time.Hour {
					all[i].Waited = -time.Hour
				}
			}
			return all
		}),
	},
	{
		"takes a long pause for a clock that was set back", "a claim or a pause of weeks lasts as long",
		delaysNotice(func(m *session.Memory, ctx context.Context, n session.Notice, pause time.Duration) error {
			if n.ID == "paused" {
				pause = 0
			}
			return m.DelayNotice(ctx, n, pause)
		}),
	},
	{
		"takes a long claim for a clock that was set back", "a claim or a pause of weeks lasts as long",
		delaysClaimed(0, func(_ int, n session.Notice) bool { return n.ID == "claimed" && n.Tries == 1 }),
	},
	{
		"delays what another has claimed", "a delay after another claim changes nothing",
		delaysNotice(func(m *session.Memory, ctx context.Context, n session.Notice, pause time.Duration) error {
			err := m.DelayNotice(ctx, n, pause)
			n.Tries++
			return errors.Join(err, m.DelayNotice(ctx, n, pause))
		}),
	},
	{
		"claims one if none is asked for",
		"to claim fewer than one or for less than no time, and a pause of less than none, are errors",
		claimsAsking(func(_ *context.Context, most *int, _ *time.Duration) { *most = max(*most, 1) }),
	},
	{
		"has two claim a notice", "of eight that claim at once no two have the same notice, and no notice is left",
		delaysClaimed(0, func(_ int, n session.Notice) bool { return n.ID == "alert-3-7" && n.Tries == 1 }),
	},
	{
		"loses a notice that many want", "of eight that claim at once no two have the same notice, and no notice is left",
		withoutNotice("alert-3-7"),
	},
	{
		"has a notice twice that two put", "of eight that put the same notices at once each is there once",
		claimsNoticesBut(func(_ *session.Memory, most int, all []session.Notice) []session.Notice {
			if most == 100 && len(all) == 10 {
				all = append(all, all[0])
			}
			return all
		}),
	},
	{
		"forgets how often it was claimed",
		"of eight that claim, delay and finish at once no two have the same try of a notice, and each is finished",
		claimsNoticesBut(func(_ *session.Memory, _ int, all []session.Notice) []session.Notice {
			for i := range all {
				if strings.HasPrefix(all[i].ID, "try-") {
					all[i].Tries = 1
				}
			}
			return all
		}),
	},
	{
		"claims for a caller that has gone",
		"a call on the outbox with a done context changes nothing and returns the context's error",
		claimsAsking(func(ctx *context.Context, _ *int, _ *time.Duration) { *ctx = context.WithoutCancel(*ctx) }),
	},
}
