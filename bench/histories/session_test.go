//go:build linux

package histories_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

// windows is how many windows a run has. An attempt begins in one of them, and several may begin in the same.
const windows = 2

// What a process does to a session.
const (
	doAttach    = "attach"
	doRead      = "read"
	doFreshen   = "freshen"    // by its keeper
	doEnd       = "end"        // the same
	doWarn      = "warn"       // by a sweeper, of the session as it read it
	doClaim     = "claim"      // the same
	doCancel    = "cancel"     // the same
	doCancelAll = "cancel all" // the same, with the other run of its slot
	doComplete  = "complete"
)

// A sessionCall is a call about a run.
type sessionCall struct {
	Do string `json:"do"`
	// signs are those by which the session was judged. A call of a keeper has some of them: the attempt, or the lease, or
	// the activity that it writes.
	signs
	// Window is the one that an attempt begins in, or that is complete.
	Window int `json:"window,omitempty"`
	// By claims or cancels. A claim that is Brief can be over at any moment.
	By    string `json:"by,omitempty"`
	Brief bool   `json:"brief,omitempty"`
	// End is how an attempt ends.
	End sessionEnd `json:"end,omitzero"`
	// Beat is that of a lease which is renewed, or the one by which it was judged.
	Beat int64 `json:"beat,omitempty"`
	// Told are the attempts that a lease forgets.
	Told attempts `json:"told,omitempty"`
}

// signs are what tells a session that was judged from one that has changed since.
type signs struct {
	Attempt int `json:"attempt,omitempty"`
	// Lease is one of the run's, 0 for none. Activity is by its clock, in hours; 0 for none since the attach.
	Lease    int   `json:"lease,omitempty"`
	Activity int64 `json:"activity,omitempty"`
	// Last is the last activity in a lease that expired, 0 for none since the attach.
	Last int64 `json:"last,omitempty"`
}

// A sessionEnd is how a session ended.
type sessionEnd struct {
	Status session.Status      `json:"status,omitempty"`
	Reason watchdog.StopReason `json:"reason,omitempty"`
}

// A sessionRow is what can be read of a row; zero if there is none. One that has ended has no signs but its attempt.
type sessionRow struct {
	signs
	// Warned is only read of a session in a lease: without one the signs that were warned of can come back.
	Warned bool `json:"warned,omitempty"`
	// Expired is the lease that the attempt had and that expired.
	Expired int `json:"expired,omitempty"`
	sessionEnd
}

// A sessionAnswer is the answer to a call about a run.
type sessionAnswer struct {
	// Undone says that nothing was done: another had locked what was to be changed, or there was no reason to.
	Undone bool `json:"undone,omitempty"`
	// Outcome is that of a warning, a claim and a cancel.
	Outcome session.Outcome `json:"outcome,omitempty"`
	// Before and Row are the row of an attach, Row that of a read.
	Before sessionRow `json:"before,omitzero"`
	Row    sessionRow `json:"row,omitzero"`
	// Gone says that the attempt that was to be fresh is not there.
	Gone bool `json:"gone,omitempty"`
	// End is how a window ended that was to be complete.
	End sessionEnd `json:"end,omitzero"`
	// Expired says that a lease does not live, Left how many sessions still name it.
	Expired bool `json:"expired,omitempty"`
	Left    int  `json:"left,omitempty"`
	// Ended are the attempts that a lease is told of.
	Ended attempts `json:"ended,omitempty"`
}

// A sessionState is the row of a run, with the ends that are stored of its windows, and its leases.
type sessionState struct {
	row    sessionRow
	window int    // of the attempt
	claim  string // by whom the attempt is claimed
	brief  bool   // that claim can be over
	ends   [windows]sessionEnd
	leases [leasesOfRun + 1]lease // by number
}

var (
	completed = sessionEnd{session.Finished, "complete"}
	swept     = sessionEnd{session.Cancelled, watchdog.SessionIdleTimeout}
)

// sessions are judged by this model: a row has at most one end for each attempt, a window has one end in all, who
// judged one attempt, or other signs of life of it, ends no other, and a lease is told of each end that is not its own.
var sessions = objectOf("run", sessionState.step)

// step does a call. While a brief claim of another is not surely over, the answer can be that it is there. A row that is
// locked can stay in an expired lease, and then can have changed for who judged it or not: what locks it can be a cancel.
func (s sessionState) step(c sessionCall, a *sessionAnswer) (legal bool, next sessionState) {
	want, next := s.do(c)
	switch {
	case a == nil || *a == want:
		return true, next
	case a.Undone:
		return true, s
	case a.Outcome == session.Taken:
		return s.brief && s.claimedBeside(c), s
	case a.Outcome == session.Changed:
		return s.asJudged(c) && s.leases[c.Lease].expired, s
	case c.Do == doLeave && a.Left > 0:
		return s.leases[c.Lease].expired && s.names(c.Lease) == a.Left, s
	}
	return false, s
}

// do says what the answer to a call is, if no brief claim lasts and no row is locked.
func (s sessionState) do(c sessionCall) (want sessionAnswer, next sessionState) {
	switch c.Do {
	case doAttach:
		return s.attach(c)
	case doFreshen:
		return s.freshen(c)
	case doEnd:
		if s.runs(c.Attempt) {
			s.end(c.End)
		}
		return want, s
	case doWarn, doClaim, doCancel, doCancelAll:
		want.Outcome, next = s.judge(c)
		return want, next
	case doComplete:
		if s.ends[c.Window] == (sessionEnd{}) {
			s.ends[c.Window] = completed
		}
		return sessionAnswer{End: s.ends[c.Window]}, s
	case doRead:
		return sessionAnswer{Row: s.row}, s
	default:
		return s.ofLease(c)
	}
}

// attach begins an attempt, which nobody has claimed. The lease of one that it follows is told.
func (s sessionState) attach(c sessionCall) (sessionAnswer, sessionState) {
	if c.Lease > 0 && !s.leases[c.Lease].lives() {
		return sessionAnswer{Expired: true}, s
	}
	before := s.row
	if before.Status == session.Active {
		s.note()
	}
	s.row = sessionRow{
		signs: signs{Attempt: before.Attempt + 1, Lease: c.Lease}, sessionEnd: sessionEnd{Status: session.Active},
	}
	s.window, s.claim, s.brief = c.Window, "", false
	return sessionAnswer{Before: before, Row: s.row}, s
}

// freshen puts the attempt into a lease, with a later activity than it has there.
func (s sessionState) freshen(c sessionCall) (sessionAnswer, sessionState) {
	switch {
	case !s.leases[c.Lease].lives():
		return sessionAnswer{Expired: true}, s
	case !s.runs(c.Attempt):
		return sessionAnswer{Gone: true}, s
	case s.row.Lease != c.Lease || s.row.Activity < c.Activity:
		s.row.Lease, s.row.Activity = c.Lease, c.Activity
		s.row.Warned, s.row.Expired = false, 0
	}
	return sessionAnswer{}, s
}

// runs reports whether an attempt is the row's, and has not ended.
func (s sessionState) runs(attempt int) bool {
	return s.row.Attempt == attempt && s.row.Status == session.Active
}

// end ends the attempt.
func (s *sessionState) end(end sessionEnd) {
	s.row = sessionRow{signs: signs{Attempt: s.row.Attempt}, sessionEnd: end}
}

// asJudged reports whether the session is as it was judged.
func (s sessionState) asJudged(c sessionCall) bool {
	return s.row.Status == session.Active && s.row.signs == c.signs
}

// claimedBeside reports whether the session that was judged is claimed by another.
func (s sessionState) claimedBeside(c sessionCall) bool {
	return s.asJudged(c) && s.claim != "" && s.claim != c.By
}

// judge is a warning, a claim or a cancel. If the end of the window is stored, the row says that from a claim or a
// cancel on.
func (s sessionState) judge(c sessionCall) (session.Outcome, sessionState) {
	stored := s.ends[s.window]
	switch {
	case !s.asJudged(c):
		return session.Changed, s
	case s.claimedBeside(c) && !s.brief:
		return session.Taken, s
	case c.Do == doWarn:
		s.row.Warned = s.row.Lease > 0
		return session.Done, s
	case stored != sessionEnd{}:
		s.note()
		s.end(stored)
		return session.EndStored, s
	case c.Do == doClaim:
		s.claim, s.brief = c.By, c.Brief
		return session.Done, s
	}
	s.note()
	s.end(swept)
	s.ends[s.window] = swept
	return session.Done, s
}

// longClaim is how long a claim lasts that outlives its history, briefClaim that of one which does not.
const (
	longClaim  = time.Hour
	briefClaim = time.Millisecond
)

// end does something to a run, most of which ends it.
func (c *client) end(ctx context.Context, run string) {
	seen, known := c.seen[run]
	switch n := c.rand.IntN(40); {
	case n < 1, n < 12 && seen.Status != session.Active:
		c.attach(ctx, run)
	case n < 12, !known:
		c.read(ctx, run)
	case n < 15:
		c.freshen(ctx, seen)
	case n < 17:
		c.endByKeeper(ctx, seen)
	case n < 20:
		c.warn(ctx, seen)
	case n < 27:
		c.claim(ctx, seen)
	case n < 31:
		c.cancel(ctx, seen)
	case n < 34:
		c.cancelAll(ctx, c.runs())
	case n < 35:
		c.complete(run, windowStart(c.rand.IntN(windows)))
	default:
		c.ofLease(ctx, run)
	}
}

var firstStart = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func windowStart(window int) time.Time { return firstStart.Add(time.Duration(window) * time.Hour) }

func windowOf(start time.Time) int { return int(start.Sub(firstStart) / time.Hour) }

// rowOf returns what histories say of a session.
func rowOf(s session.Session) sessionRow {
	row := sessionRow{signs: signs{Attempt: s.Attempt}, sessionEnd: sessionEnd{s.Status, s.Reason}}
	if s.Status == session.Active {
		row.signs, row.Expired = signsOf(s), numberOf(s.Expired.ID)
		row.Warned = s.Lease != "" && !s.WarnedAt.IsZero()
	}
	return row
}

// signsOf returns the signs of a session. A lease is an hour ahead with each activity, and its renewals, like the
// attaches, are in the first minutes after the row was made.
func signsOf(s session.Session) signs {
	return signs{
		Attempt: s.Attempt, Lease: numberOf(s.Lease), Activity: int64(max(s.Activity, 0) / activityUnit),
		Last: int64(s.LastEventAt.Sub(s.CreatedAt).Round(activityUnit) / activityUnit),
	}
}

const activityUnit = time.Hour

// begin notes a call about a run, and returns what notes its answer. An error says nothing of what became of the call,
// but for two.
func (c *client) begin(run string, call sessionCall) (answered func(sessionAnswer, error)) {
	note := c.book.call(run, call)
	return func(a sessionAnswer, err error) {
		switch {
		case errors.Is(err, session.ErrLocked):
			note(sessionAnswer{Undone: true})
		case errors.Is(err, session.ErrLeaseExpired):
			note(sessionAnswer{Expired: true})
		case err == nil:
			note(a)
		default:
			c.failed = true
		}
	}
}

func (c *client) attach(ctx context.Context, run string) {
	number := c.anyLease()
	if c.rand.IntN(4) == 0 {
		number = 0
	}
	call := sessionCall{Do: doAttach, Window: c.rand.IntN(windows), signs: signs{Lease: number}}
	answered := c.begin(run, call)
	before, after, err := c.store.Attach(ctx, session.Session{
		RunID: run, StartedAt: windowStart(call.Window), Lease: leaseOf(run, number),
	})
	answered(sessionAnswer{Before: rowOf(before), Row: rowOf(after)}, err)
	if err == nil {
		c.seen[run] = after
	}
}

func (c *client) read(ctx context.Context, run string) {
	answered := c.begin(run, sessionCall{Do: doRead})
	s, err := c.store.Session(ctx, run)
	if errors.Is(err, session.ErrNotFound) {
		err = nil
	}
	answered(sessionAnswer{Row: rowOf(s)}, err)
	if err == nil && s.Attempt > 0 {
		c.seen[run] = s
	}
}

// freshen writes an activity that no other call writes.
func (c *client) freshen(ctx context.Context, seen session.Session) {
	call := sessionCall{Do: doFreshen, signs: signs{Attempt: seen.Attempt, Lease: c.anyLease(), Activity: c.number}}
	answered := c.begin(seen.RunID, call)
	skipped, err := c.store.Freshen(ctx, leaseOf(seen.RunID, call.Lease), []session.Freshness{{
		RunID: seen.RunID, Attempt: seen.Attempt, Activity: time.Duration(c.number) * activityUnit,
	}})
	answered(sessionAnswer{Gone: len(skipped.Gone) > 0}, errorOf(skipped, err))
}

func (c *client) endByKeeper(ctx context.Context, seen session.Session) {
	call := sessionCall{
		Do: doEnd, signs: signs{Attempt: seen.Attempt}, End: sessionEnd{Status: session.Finished},
	}
	if c.rand.IntN(2) == 0 {
		call.End.Status = session.Interrupted
	}
	answered := c.begin(seen.RunID, call)
	answered(sessionAnswer{}, errorOf(c.store.End(ctx, []session.Ending{{
		RunID: seen.RunID, Attempt: seen.Attempt, Status: call.End.Status,
	}})))
}

// errorOf returns why the only row of a batch was not written, but for one that is gone.
func errorOf(skipped session.Skipped, err error) error {
	if len(skipped.Locked) > 0 {
		return session.ErrLocked
	}
	for _, failed := range skipped.Failed {
		err = errors.Join(err, failed)
	}
	return err
}

func (c *client) warn(ctx context.Context, seen session.Session) {
	answered := c.begin(seen.RunID, sessionCall{Do: doWarn, signs: signsOf(seen)})
	outcome, err := c.store.Warn(ctx, seen, []watchdog.Event{stalled(seen).WarningEvent()})
	answered(sessionAnswer{Outcome: outcome}, err)
}

func (c *client) claim(ctx context.Context, seen session.Session) {
	call := sessionCall{Do: doClaim, signs: signsOf(seen), By: c.name, Brief: c.rand.IntN(4) == 0}
	request := session.ClaimRequest{By: c.name, For: longClaim, EndID: endID(seen)}
	if call.Brief {
		request.For = briefClaim
	}
	answered := c.begin(seen.RunID, call)
	outcome, err := c.store.Claim(ctx, seen, request)
	answered(sessionAnswer{Outcome: outcome}, err)
}

func (c *client) cancel(ctx context.Context, seen session.Session) {
	answered := c.begin(seen.RunID, sessionCall{Do: doCancel, signs: signsOf(seen), By: c.name})
	outcome, err := c.store.Cancel(ctx, seen, c.cancelOf(seen))
	answered(sessionAnswer{Outcome: outcome}, err)
}

// cancelAll cancels those of the runs that the client knows.
func (c *client) cancelAll(ctx context.Context, runs []string) {
	var all []session.BatchedCancel
	var answered []func(sessionAnswer, error)
	for _, run := range runs {
		if seen, known := c.seen[run]; known {
			all = append(all, session.BatchedCancel{Judged: seen, Request: c.cancelOf(seen)})
			call := sessionCall{Do: doCancelAll, signs: signsOf(seen), By: c.name}
			answered = append(answered, c.begin(run, call))
		}
	}
	outcomes, err := c.store.CancelAll(ctx, all)
	for i, note := range answered {
		if err != nil {
			note(sessionAnswer{}, err)
			continue
		}
		note(sessionAnswer{Outcome: outcomes[i], Undone: outcomes[i] == ""}, nil)
	}
}

func (c *client) cancelOf(judged session.Session) session.CancelRequest {
	return session.CancelRequest{By: c.name, Reason: swept.Reason, Events: stalled(judged).CancelEvents()}
}

// stalled holds what the events say that a sweeper writes.
func stalled(s session.Session) sweep.StalledRun {
	return sweep.StalledRun{
		RunID: s.RunID, StartedAt: s.StartedAt, LastEventAt: s.LastEventAt, DecidedAt: time.Now(), Silence: time.Hour,
		Threshold: time.Minute,
	}
}

func endID(s session.Session) string {
	events := stalled(s).CancelEvents()
	return events[len(events)-1].ID
}

// complete attaches a watchdog to the run in a window, and says that the run has done its work. Which window it is the
// watchdog says: that which the run had last, if it finds a later one.
func (c *client) complete(run string, start time.Time) {
	wd, err := watchdog.New(context.Background(), watchdog.Run{ID: run, StartedAt: start}, watchdog.Config{
		Store: c.store, Logger: quiet, RecordTimeout: patienceOfCall,
		Budget: watchdog.Budget{WallClock: watchdog.NoLimit},
	})
	if err != nil { // nothing was written
		c.failed = !errors.Is(err, watchdog.ErrComplete)
		return
	}
	defer func() { _ = wd.Close() }() // what it could not record it tries once more
	answered := c.begin(run, sessionCall{Do: doComplete, Window: windowOf(wd.StartedAt())})
	err = wd.Complete()
	a := sessionAnswer{End: completed}
	if stop, ok := errors.AsType[*watchdog.Stop](err); ok {
		a.End, err = sessionEnd{session.Cancelled, stop.Code}, nil
	}
	answered(a, err)
}

// leasesOfRun is how many leases a run has. Nobody else's rows are in them, so that all that can be said of a lease is
// in the history of its run.
const leasesOfRun = 12

// What a process does to a lease.
const (
	doBegin  = "begin lease"
	doRenew  = "renew lease"
	doExpire = "expire lease"
	// doLeave is the second half of the call that expires a lease: a store may take the sessions out in a transaction of
	// its own.
	doLeave = "leave lease"
	doEnded = "ask lease"
)

// A lease is what a store knows of one; zero if there is none.
type lease struct {
	beat    int64
	expired bool
	ended   attempts // that it is to be told of
}

func (l lease) lives() bool { return l.beat > 0 && !l.expired }

// attempts are a set of attempts.
type attempts uint64

func attemptSet(attempt int) attempts { return 1 << attempt }

// note has the lease of the row told that somebody else ends the attempt.
func (s *sessionState) note() {
	if l := &s.leases[s.row.Lease]; l.beat > 0 {
		l.ended |= attemptSet(s.row.Attempt)
	}
}

// names returns how many sessions are in a lease.
func (s sessionState) names(lease int) int {
	if s.row.Lease == lease {
		return 1
	}
	return 0
}

// ofLease says what the answer to a call about a lease is. Each is begun once, by one call.
func (s sessionState) ofLease(c sessionCall) (want sessionAnswer, next sessionState) {
	l := &s.leases[c.Lease]
	switch c.Do {
	case doBegin:
		l.beat = 1
	case doRenew:
		if want.Expired = !l.lives(); l.lives() {
			l.beat = max(l.beat, c.Beat)
		}
	case doExpire:
		if l.lives() && l.beat != c.Beat {
			want.Left = s.names(c.Lease)
			return want, s
		}
		want.Expired, l.expired = true, l.beat > 0
		s.forgetEmpty(c.Lease)
	case doLeave:
		if l.expired && s.names(c.Lease) > 0 {
			s.row.signs = signs{Attempt: s.row.Attempt, Last: max(s.row.Last, s.row.Activity)}
			s.row.Warned, s.row.Expired = false, c.Lease
		}
		s.forgetEmpty(c.Lease)
	case doEnded:
		l.ended &^= c.Told
		want.Ended = l.ended
	}
	return want, s
}

// forgetEmpty deletes an expired lease that no session is in, and what it was not told of.
func (s *sessionState) forgetEmpty(number int) {
	if l := &s.leases[number]; l.expired && s.names(number) == 0 {
		*l = lease{}
	}
}

// callsOfLease is after how many calls about the same objects each run gets another lease.
const callsOfLease = callsOfSlot / 3

// ofLease does something to a lease of a run.
func (c *client) ofLease(ctx context.Context, run string) {
	switch number := c.anyLease(); c.rand.IntN(6) {
	case 0:
		c.renewLease(ctx, run, number)
	case 1, 2:
		c.expireLease(ctx, run, number)
	default:
		c.askLease(ctx, run, number)
	}
}

// anyLease returns the number of the latest lease, or of one before it.
func (c *client) anyLease() int { return max(1, min(c.latest, leasesOfRun)-c.rand.IntN(2)) }

// leaseOf returns the ID of a lease by its number, empty for none.
func leaseOf(run string, number int) string {
	if number == 0 {
		return ""
	}
	return fmt.Sprintf("%s/%d", run, number)
}

func numberOf(lease string) int {
	n, _ := strconv.Atoi(lease[strings.LastIndexByte(lease, '/')+1:]) // without a lease it is 0
	return n
}

func (c *client) beginLease(ctx context.Context, run string, number int) {
	answered := c.begin(run, sessionCall{Do: doBegin, signs: signs{Lease: number}})
	answered(sessionAnswer{}, c.store.BeginLease(ctx, session.Lease{ID: leaseOf(run, number), Beat: 1}))
}

func (c *client) renewLease(ctx context.Context, run string, number int) {
	answered := c.begin(run, sessionCall{Do: doRenew, signs: signs{Lease: number}, Beat: c.number})
	id := leaseOf(run, number)
	err := c.store.RenewLease(ctx, session.Lease{ID: id, Beat: c.number})
	answered(sessionAnswer{}, err)
	if err == nil {
		c.beats[id] = c.number
	}
}

// expireLease judges a lease by the last beat that this client wrote, or by the first: others can have renewed it. Once
// in a while it is one that nobody wrote.
func (c *client) expireLease(ctx context.Context, run string, number int) {
	id := leaseOf(run, number)
	judged := session.Lease{ID: id, Beat: cmp.Or(c.beats[id], 1)}
	if c.rand.IntN(4) == 0 {
		judged.Beat = c.number
	}
	expiring := c.begin(run, sessionCall{Do: doExpire, signs: signs{Lease: number}, Beat: judged.Beat})
	leaving := c.begin(run, sessionCall{Do: doLeave, signs: signs{Lease: number}})
	expired, left, err := c.store.ExpireLease(ctx, judged)
	if !expired {
		expiring(sessionAnswer{Left: left}, err)
		leaving(sessionAnswer{Undone: true}, err)
		return
	}
	expiring(sessionAnswer{Expired: true}, err)
	leaving(sessionAnswer{Left: left}, err)
}

// askLease asks which attempts of the lease others have ended. It may say that it was told of those of its last answer.
func (c *client) askLease(ctx context.Context, run string, number int) {
	id := leaseOf(run, number)
	told := c.told[id]
	if c.rand.IntN(2) == 0 {
		told = nil
	}
	answered := c.begin(run, sessionCall{Do: doEnded, signs: signs{Lease: number}, Told: attemptsOf(told)})
	ended, err := c.store.Ended(ctx, id, told)
	answered(sessionAnswer{Ended: attemptsOf(ended)}, err)
	if err == nil {
		c.told[id] = ended
	}
}

func attemptsOf(all []session.AttemptID) (set attempts) {
	for _, a := range all {
		set |= attemptSet(a.Attempt)
	}
	return set
}
