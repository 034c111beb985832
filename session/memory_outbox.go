package session

import (
	"context"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/storerows"
)

// A memoryNotice is due from a time on, which was set at another; one that was never claimed has neither.
type memoryNotice struct {
	Notice
	due, pausedAt time.Time
}

// pause has a notice be due after a while.
func (n *memoryNotice) pause(now time.Time, d time.Duration) {
	n.due, n.pausedAt = record.Truncate(now.Add(d)), now
}

// put puts a notice, unless there is one with its ID.
func (m *Memory) put(n Notice) {
	if !slices.ContainsFunc(m.notices, func(there memoryNotice) bool { return there.ID == n.ID }) {
		n.CreatedAt, n.Tries, n.Waited = m.now(), 0, 0
		m.notices = append(m.notices, memoryNotice{Notice: n})
	}
}

// PutNotices implements [Outbox].
func (m *Memory) PutNotices(ctx context.Context, notices ...Notice) error {
	for _, n := range notices {
		if err := n.Validate(); err != nil {
			return err
		}
	}
	return m.withOutbox(ctx, func(time.Time) {
		for _, n := range notices {
			m.put(n)
		}
	})
}

// ClaimNotices implements [Outbox]. No notice is ever locked.
func (m *Memory) ClaimNotices(ctx context.Context, most int, lasts time.Duration) (claimed []Notice, err error) {
	if err := storerows.CheckClaim(most, lasts); err != nil {
		return nil, err
	}
	err = m.withOutbox(ctx, func(now time.Time) {
		slices.SortStableFunc(m.notices, func(a, b memoryNotice) int { return a.due.Compare(b.due) })
		for i := range m.notices {
			n := &m.notices[i]
			isDue := !n.due.After(now) || n.pausedAt.After(now.Add(storerows.SetBack))
			if isDue && len(claimed) < most {
				n.pause(now, lasts)
				n.Tries++
				claimed = append(claimed, n.Notice)
			}
		}
	})
	return claimed, err
}

// FinishNotices implements [Outbox].
func (m *Memory) FinishNotices(ctx context.Context, notices ...Notice) error {
	return m.withOutbox(ctx, func(time.Time) {
		m.notices = slices.DeleteFunc(m.notices, func(there memoryNotice) bool {
			return slices.ContainsFunc(notices, func(n Notice) bool { return n.ID == there.ID })
		})
	})
}

// DelayNotice implements [Outbox].
func (m *Memory) DelayNotice(ctx context.Context, n Notice, pause time.Duration) error {
	if err := storerows.CheckPause(n.ID, pause); err != nil {
		return err
	}
	return m.withOutbox(ctx, func(now time.Time) {
		for i := range m.notices {
			if there := &m.notices[i]; there.ID == n.ID && there.Tries == n.Tries {
				there.pause(now, pause)
				waited := storerows.RoundUp(there.Waited) + storerows.RoundUp(pause)
				there.Waited = time.Duration(min(waited, storerows.LongestWait)) * time.Microsecond
			}
		}
	})
}

// withOutbox is do, if the outbox is on.
func (m *Memory) withOutbox(ctx context.Context, call func(now time.Time)) error {
	if !m.Outbox {
		return ErrNoOutbox
	}
	return m.do(ctx, func() error { call(m.now()); return nil })
}
