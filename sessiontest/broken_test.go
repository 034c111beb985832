package sessiontest_test

import (
	"context"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/session"
)

// broken is a store with one flaw, and the rule that must find it.
type broken struct {
	flaw   string // completes "a store that …"
	breaks string
	open   func() session.Store
}

func brokenStores() []broken {
	return slices.Concat(brokenAttaches, brokenRows, brokenFreshens, brokenEnds, brokenStalled, brokenPages,
		brokenCancels, brokenEnded, brokenHistories, brokenListens, brokenContexts)
}

// frozen returns a memory whose clock stands still, so that rows can be exactly at a limit.
func frozen() *session.Memory {
	now := time.Date(2026, 5, 6, 7, 8, 9, 123_000_000, time.UTC)
	return &session.Memory{Clock: func() time.Time { return now }}
}

// altered is a memory whose methods can be replaced.
type altered struct {
	*session.Memory
	attach  func(m *session.Memory, ctx context.Context, s session.Session) (before, after session.Session, err error)
	freshen func(m *session.Memory, ctx context.Context, fresh []session.Freshness) (session.Skipped, error)
	end     func(m *session.Memory, ctx context.Context, ends []session.Ending) (session.Skipped, error)
	session func(m *session.Memory, ctx context.Context, runID string) (session.Session, error)
	stalled func(m *session.Memory, ctx context.Context, q session.Query) (session.Page, error)
	cancel  func(m *session.Memory, ctx context.Context, judged session.Session, c session.CancelRequest) (bool, error)
	ended   func(m *session.Memory, ctx context.Context, mark string) ([]string, string, error)
	history func(m *session.Memory, ctx context.Context, h session.HistoryQuery) ([]session.CancelCount, error)
	listen  func(m *session.Memory, ctx context.Context, ready func(), told func(string)) error
}

// with returns a memory with some methods replaced.
func with(change func(a *altered)) func() session.Store {
	return func() session.Store {
		a := &altered{Memory: frozen()}
		change(a)
		return a
	}
}

func (a *altered) Attach(ctx context.Context, s session.Session) (before, after session.Session, err error) {
	if a.attach != nil {
		return a.attach(a.Memory, ctx, s)
	}
	return a.Memory.Attach(ctx, s)
}

func (a *altered) Freshen(ctx context.Context, fresh []session.Freshness) (session.Skipped, error) {
	if a.freshen != nil {
		return a.freshen(a.Memory, ctx, fresh)
	}
	return a.Memory.Freshen(ctx, fresh)
}

func (a *altered) End(ctx context.Context, ends []session.Ending) (session.Skipped, error) {
	if a.end != nil {
		return a.end(a.Memory, ctx, ends)
	}
	return a.Memory.End(ctx, ends)
}

func (a *altered) Session(ctx context.Context, runID string) (session.Session, error) {
	if a.session != nil {
		return a.session(a.Memory, ctx, runID)
	}
	return a.Memory.Session(ctx, runID)
}

func (a *altered) Stalled(ctx context.Context, q session.Query) (session.Page, error) {
	if a.stalled != nil {
		return a.stalled(a.Memory, ctx, q)
	}
	return a.Memory.Stalled(ctx, q)
}

func (a *altered) Cancel(ctx context.Context, judged session.Session, c session.CancelRequest) (bool, error) {
	if a.cancel != nil {
		return a.cancel(a.Memory, ctx, judged, c)
	}
	return a.Memory.Cancel(ctx, judged, c)
}

func (a *altered) Ended(ctx context.Context, mark string) ([]string, string, error) {
	if a.ended != nil {
		return a.ended(a.Memory, ctx, mark)
	}
	return a.Memory.Ended(ctx, mark)
}

func (a *altered) History(ctx context.Context, h session.HistoryQuery) ([]session.CancelCount, error) {
	if a.history != nil {
		return a.history(a.Memory, ctx, h)
	}
	return a.Memory.History(ctx, h)
}

func (a *altered) Listen(ctx context.Context, ready func(), told func(string)) error {
	if a.listen != nil {
		return a.listen(a.Memory, ctx, ready, told)
	}
	return a.Memory.Listen(ctx, ready, told)
}

// row returns the row of a run, or an empty one if there is none.
func row(m *session.Memory, runID string) session.Session {
	s, _ := m.Session(context.Background(), runID)
	return s
}
