package sessiontest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/contract"
	"github.com/seed62658d38/watchdog/session"
)

// The values of rows and queries in checks that are not about them.
const (
	homeRun   = "run-1"
	homeLease = "lease-1"
	host      = "host-1"
	threshold = 10 * time.Minute
	minAge    = 2 * time.Minute
	day       = 24 * time.Hour
)

// noon is the start of windows, and the time of events.
var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

func newSession(runID string) session.Session {
	return session.Session{RunID: runID, StartedAt: noon, Host: host}
}

func attach(ctx context.Context, store session.Store, s session.Session) (session.Session, error) {
	_, after, err := store.Attach(ctx, s)
	if err != nil {
		return session.Session{}, fmt.Errorf("attach to %q: %w", s.RunID, err)
	}
	return after, nil
}

func look(ctx context.Context, store session.Store, runID string) (session.Session, error) {
	s, err := store.Session(ctx, runID)
	if err != nil {
		return session.Session{}, fmt.Errorf("look at the session of %q: %w", runID, err)
	}
	return s, nil
}

// looksLike checks the row of a run.
func looksLike(ctx context.Context, store session.Store, want session.Session) error {
	got, err := look(ctx, store, want.RunID)
	if err != nil {
		return err
	}
	return differs(got, want)
}

// differs returns an error if two rows differ. It compares times as instants, without their zones, and the state as
// JSON.
func differs(got, want session.Session) error {
	if got, want := comparison(got), comparison(want); !reflect.DeepEqual(got, want) {
		return fmt.Errorf("the session is\n\t%s, want\n\t%s", text(got), text(want))
	}
	return nil
}

func comparison(s session.Session) session.Session {
	// What a row is expected to be is read before it ends, or leaves its lease: rules of their own check these.
	s.EndedAt, s.Expired = time.Time{}, session.ExpiredLease{}
	for _, at := range []*time.Time{&s.CreatedAt, &s.LastEventAt, &s.StartedAt, &s.WarnedAt} {
		*at = at.UTC()
	}
	s.State = canonical(s.State)
	return s
}

// canonical returns a JSON text without spaces and with sorted keys. It returns a text that is no JSON unchanged.
func canonical(text json.RawMessage) json.RawMessage {
	var value any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber() // digits count
	if d.Decode(&value) != nil {
		return text
	}
	sorted, err := json.Marshal(value)
	if err != nil {
		return text
	}
	return sorted
}

// text prints a session with its state as text.
func text(s session.Session) string {
	state := string(s.State)
	s.State = nil
	return fmt.Sprintf("%+v with the state %q", s, state)
}

// clockOf returns the time of the store's clock.
func clockOf(ctx context.Context, store session.Store) (time.Time, error) {
	page, err := store.Stalled(ctx, session.Query{Threshold: watchdog.NoLimit, Limit: 1})
	if err != nil {
		return time.Time{}, fmt.Errorf("ask for the time: %w", err)
	}
	return page.Now, nil
}

// silentSession returns an active session, a day old, whose last event was so long before now.
func silentSession(runID string, now time.Time, silence time.Duration) session.Session {
	return session.Session{
		RunID: runID, Status: session.Active, CreatedAt: now.Add(-day), LastEventAt: now.Add(-silence),
		StartedAt: noon, Host: host, Attempt: 1,
	}
}

// put writes rows as another program would.
func put(ctx context.Context, store session.Store, rows ...session.Session) error {
	putter, ok := store.(Putter)
	if !ok {
		return fmt.Errorf("%w: the store is not a sessiontest.Putter", errNotCheckable)
	}
	if err := putter.Put(ctx, rows...); err != nil {
		return fmt.Errorf("put %d rows: %w", len(rows), err)
	}
	return nil
}

// putSilent writes one row and returns it.
func putSilent(ctx context.Context, store session.Store, runID string, silence time.Duration) (session.Session, error) {
	now, err := clockOf(ctx, store)
	if err != nil {
		return session.Session{}, err
	}
	s := silentSession(runID, now, silence)
	return s, put(ctx, store, s)
}

func freshen(
	ctx context.Context, store session.Store, lease string, fresh ...session.Freshness,
) (gone []string, err error) {
	skipped, err := store.Freshen(ctx, lease, fresh)
	if err != nil {
		return nil, fmt.Errorf("freshen %d sessions: %w", len(fresh), err)
	}
	if len(skipped.Locked)+len(skipped.Failed) > 0 {
		return nil, fmt.Errorf("freshen %d sessions: %q are locked and %v refused, of rows that nobody else has",
			len(fresh), skipped.Locked, skipped.Failed)
	}
	slices.Sort(skipped.Gone)
	return skipped.Gone, nil
}

// freshens writes activities, and checks that no session is gone.
func freshens(ctx context.Context, store session.Store, lease string, fresh ...session.Freshness) error {
	gone, err := freshen(ctx, store, lease, fresh...)
	if err == nil && len(gone) > 0 {
		err = fmt.Errorf("gone are %s", contract.Shorten(gone))
	}
	return err
}

func end(ctx context.Context, store session.Store, ends ...session.Ending) error {
	skipped, err := store.End(ctx, ends)
	if err == nil && len(skipped.Gone)+len(skipped.Locked)+len(skipped.Failed) > 0 {
		err = fmt.Errorf("skipped are %+v, of rows that nobody else has", skipped)
	}
	if err != nil {
		return fmt.Errorf("end %d sessions: %w", len(ends), err)
	}
	return nil
}

func find(ctx context.Context, store session.Store, q session.Query) (session.Page, error) {
	page, err := store.Stalled(ctx, q)
	if err != nil {
		return session.Page{}, fmt.Errorf("find stalled sessions: %w", err)
	}
	return page, nil
}

// findsOnly checks that exactly these sessions are stalled, in this order.
func findsOnly(ctx context.Context, store session.Store, want ...string) error {
	page, err := find(ctx, store, session.Query{Threshold: threshold, MinAge: minAge, Limit: 100})
	if err == nil && !slices.Equal(names(page.Sessions), want) {
		err = fmt.Errorf("stalled are %s, want %s", contract.Shorten(names(page.Sessions)), contract.Shorten(want))
	}
	return err
}

func names(sessions []session.Session) []string {
	all := make([]string, len(sessions))
	for i, s := range sessions {
		all[i] = s.RunID
	}
	return all
}

// why is the reason in checks that are not about reasons, by the one who cancels in checks that are not about claims.
const (
	why = watchdog.StopReason("watchdog_idle_timeout")
	by  = "pass-1"
)

func cancelOf(runID string) session.CancelRequest {
	return session.CancelRequest{
		By: by, Reason: why, Events: []watchdog.Event{cancelEvent("cancel of "+runID, runID, noon)},
	}
}

func cancelEvent(id, runID string, at time.Time) watchdog.Event {
	return watchdog.Event{
		ID: id, AggregateType: watchdog.AggregateType, AggregateID: runID, Type: watchdog.EventCancel,
		Payload: []byte(`{"reason":"idle_timeout"}`), Timestamp: at,
	}
}

// cancels checks what becomes of a cancel.
func cancels(ctx context.Context, store session.Store, judged session.Session, want session.Outcome) error {
	return cancelsAs(ctx, store, judged, cancelOf(judged.RunID), want)
}

func cancelsAs(
	ctx context.Context, store session.Store, judged session.Session, c session.CancelRequest, want session.Outcome,
) error {
	got, err := store.Cancel(ctx, judged, c)
	return came("cancel", judged.RunID, got, want, err)
}

// came checks what became of a call about a judged session.
func came(call, runID string, got, want session.Outcome, err error) error {
	if err != nil {
		return fmt.Errorf("%s %q: %w", call, runID, err)
	}
	if got != want {
		return fmt.Errorf("%s %q: the outcome is %q, want %q", call, runID, got, want)
	}
	return nil
}

// recorded checks that a run has exactly these events.
func recorded(ctx context.Context, store session.Store, runID string, want ...string) error {
	events, err := store.Read(ctx, watchdog.AggregateType, runID)
	if err != nil {
		return fmt.Errorf("read the events of %q: %w", runID, err)
	}
	var got []string
	for _, e := range events {
		got = append(got, e.ID)
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("the run %q has the events %q, want %q", runID, got, want)
	}
	return nil
}

// inOrder runs steps until one fails.
func inOrder(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}
