package machine_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/ledger"
	"github.com/seed62658d38/watchdog/internal/machine"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

var errClosed = errors.New("closed")

const (
	maxDepth = 4
	maxRuns  = 12
)

// newWorld begins a session.
func newWorld(tb testing.TB, seed uint64, checked bool) *world {
	tb.Helper()
	w := &world{tb: tb, rng: rand.New(rand.NewPCG(seed, 7)), seed: seed, checked: checked}
	w.trail = make([]happening, 0, 2*historyActs)
	w.now = machine.Now{Machine: w.chance(2)}
	w.rules = machine.Rules{
		ObserveOnly: w.chance(8), Disabled: w.chance(40), Records: w.chance(2),
	}
	w.scale = 1
	if w.chance(2) { // a session that lives long
		w.scale = 30
	}
	w.pass(time.Duration(w.rng.IntN(3000)) * time.Millisecond)
	w.begin(nil, w.now.At)
	return w
}

// chance is true once in n times.
func (w *world) chance(n int) bool { return w.rng.IntN(n) == 0 }

func (w *world) length(most time.Duration) time.Duration {
	return time.Duration(w.rng.Int64N(int64(most))) + 1
}

// lengthOrNever is a limit, of which one in n is off.
func (w *world) lengthOrNever(n int, most time.Duration) time.Duration {
	if w.chance(n) {
		return verdict.Never
	}
	return w.length(most * time.Duration(w.scale))
}

// begin begins the session, or a layer of a run.
func (w *world) begin(outer *run, elapsed time.Duration) {
	r := &run{outer: outer}
	in := machine.Input{Kind: machine.Begin, Elapsed: elapsed}
	name := "s"
	if outer != nil {
		r.depth, in.Around = outer.depth+1, &outer.node
		r.unaware = w.learned < len(w.foreign)
		r.worked, r.outerWorked = elapsed, outer.node.Worked(outer.node.At(w.now.At))
		name = outer.node.Run + "/l"
	}
	r.limits = w.limits(outer)
	r.node.Name = machine.Name{Run: name, StartedAt: event.Truncate(w.now.Wall.Add(-elapsed)), Begins: outer != nil}
	r.node.Rules, r.node.Limits = w.rules, &r.limits
	w.place(r)
	if r.limits.Idle != verdict.Never || r.limits.NoProgress != verdict.Never || r.limits.Ladders != nil {
		r.node.Heed()
	}
	w.open(r)
	in.Window = &fold.Window{StartedAt: r.node.StartedAt}
	switch {
	case outer != nil:
	case w.chance(100):
		in.Window.Stop = &record.Cancel{Reason: "wall_clock_exceeded"}
	case w.chance(6):
		w.leave(r)
		in.Window = w.known(r)
		w.learn(r)
	}
	w.step(r, &in)
	if outer == nil {
		w.pass(w.length(time.Second))
		w.step(r, &machine.Input{Kind: machine.Attached})
		w.look(r)
	}
}

// place puts a run among the others, with room for so many: one that is over makes room.
func (w *world) place(r *run) {
	if len(w.runs) < maxRuns {
		r.node.Number = len(w.runs)
		w.runs = append(w.runs, r)
		return
	}
	r.node.Number = w.free()
	w.runs[r.node.Number] = r
}

// free is the number of a layer that is over, or -1.
func (w *world) free() int {
	return slices.IndexFunc(w.runs, func(r *run) bool { return r.outer != nil && r.phase == machine.Over })
}

// open opens the account of a run. That of the session is there before those of its layers.
func (w *world) open(r *run) {
	spend := verdict.NewSpend(r.limits.Counts, w.rules.ObserveOnly)
	if r.outer == nil {
		w.books.OpenSession(&r.account, spend, "")
	} else {
		w.books.OpenLayer(&r.account, &r.outer.account, spend, "")
	}
	if len(r.limits.Counts) > 0 {
		r.node.Count(&r.account)
	}
}

func (w *world) limits(outer *run) verdict.Limits { //nolint:cyclop // a list
	l := verdict.Limits{
		WallClock: w.lengthOrNever(4, 2*time.Minute), Safety: w.lengthOrNever(3, 5*time.Minute),
		Idle: w.lengthOrNever(2, 20*time.Second), NoProgress: w.lengthOrNever(2, 40*time.Second),
		FromFirstSign: w.chance(4), FirstSign: w.lengthOrNever(2, 20*time.Second),
	}
	if l.Idle == verdict.Never && l.NoProgress == verdict.Never {
		l.FromFirstSign = false
	}
	if outer != nil {
		l.WallClock = min(l.WallClock, outer.node.Remaining(outer.node.At(w.now.At)))
	}
	if w.chance(2) {
		l.WarnAt = []float64{0.5, 0.8}
	}
	if w.chance(2) && l.WallClock != verdict.Never {
		l.Reserve = l.WallClock / 4
	}
	if w.chance(2) {
		l.Ladders = verdict.Ladders{
			verdict.Idle: w.ladder(), verdict.NoProgress: w.ladder(), verdict.Hold: w.ladder(), "requests": w.ladder(), "tokens": w.ladder(),
			"call_input": w.ladder(), "errors": w.ladder(),
		}
	}
	for _, kind := range [...]verdict.Kind{
		verdict.KindRequests, verdict.KindTokens, verdict.KindCallInput, verdict.KindErrors,
	} {
		if !w.chance(3) {
			continue
		}
		c := verdict.CountLimit{CountID: verdict.CountID{Kind: kind}, Max: 1 + w.rng.Int64N(30)*w.scale, WarnAt: l.WarnAt}
		if w.chance(2) && kind != verdict.KindErrors && kind != verdict.KindCallInput {
			c.Reserve = c.Max / 3
		}
		l.Counts = append(l.Counts, c)
	}
	return l
}

var ladders = [...][]verdict.Directive{
	nil, {verdict.DirectWait}, {verdict.DirectRetry}, {verdict.DirectRetry, verdict.DirectUnstick},
	{verdict.DirectRetry, verdict.DirectWait}, {verdict.DirectCancel},
}

func (w *world) ladder() []verdict.Directive { return ladders[w.rng.IntN(len(ladders))] }

// An act is what the host, the store or the clock does, and how often beside the others.
type act struct {
	share int
	do    func(*world, *run)
}

var acts = [...]act{
	{25, (*world).hold},
	{22, (*world).release},
	{29, (*world).admit},
	{26, (*world).settle},
	{25, (*world).layer},
	{20, (*world).answer},
	{29, (*world).adopt},
	{3, (*world).sign},
	{2, (*world).look},
	{2, (*world).lookAround},
	{5, (*world).wait},
	{24, (*world).end},
	{1, (*world).cancel},
	{1, (*world).complete},
	{3, (*world).stored},
}

// picks has each act as often as its share.
var picks = func() (all []func(*world, *run)) {
	for _, a := range acts {
		for range a.share {
			all = append(all, a.do)
		}
	}
	return all
}()

// act makes something happen to a run.
func (w *world) act() {
	if w.chance(300) {
		w.endParent()
	} else {
		picks[w.rng.IntN(len(picks))](w, w.pick())
	}
	if w.checked {
		w.checkAct()
	}
}

// pick picks a run, which is mostly one that is not over.
func (w *world) pick() (r *run) {
	for range 4 {
		if r = w.runs[w.rng.IntN(len(w.runs))]; r.phase != machine.Over {
			break
		}
	}
	return r
}

// over reports whether nothing can happen any more.
func (w *world) over() bool {
	for _, r := range w.runs {
		if r.node.Phase() != machine.Over {
			return false
		}
	}
	return true
}

func (w *world) look(r *run) { w.step(r, &machine.Input{Kind: machine.Look}) }

func (w *world) lookAround(r *run) { w.step(r, &machine.Input{Kind: machine.LookAround}) }

func (w *world) tick() { w.step(w.session(), &machine.Input{Kind: machine.Tick}) }

// wait lets time pass, and mostly has the timer ring.
func (w *world) wait(*run) {
	due := w.tree.Due()
	switch w.rng.IntN(7) {
	case 0:
		w.passTo(due - 1)
		w.tickEarly(due)
		return
	case 1, 2:
		w.passTo(due)
	case 3:
		w.passTo(due + 1)
	case 4:
		w.pass(w.length(3 * time.Second))
		return
	case 5:
		w.sleep()
	default:
		w.pass(w.length(time.Minute))
	}
	w.tick()
}

// sleep has the machine sleep, which only its own clock tells of.
func (w *world) sleep() {
	d := w.length(10 * time.Second)
	if w.now.Machine {
		w.slept = w.now.At - w.now.Offset
		w.now.Offset += d
	}
	w.pass(d)
}

func (w *world) passTo(at time.Duration) {
	if at < verdict.Never-1 && at > w.now.At {
		w.pass(at - w.now.At)
	}
}

// tickEarly has the timer ring before anything is due.
func (w *world) tickEarly(due time.Duration) {
	before := len(w.trail)
	w.tick()
	if w.checked && w.now.At < due && len(w.trail) > before+1 && w.now.Parent == nil {
		w.fail("something happened before it was due at %v", due)
	}
}

func (w *world) sign(r *run) {
	progress := w.chance(3)
	for ; r != nil; r = r.outer {
		pulse := r.node.Pulse.Load()
		switch {
		case pulse == nil:
		case w.now.Machine:
			if pulse.At(progress, r.limits.FromFirstSign, w.now.At-w.now.Offset) {
				w.step(r, &machine.Input{Kind: machine.Awaited})
			}
		default:
			w.step(r, &machine.Input{Kind: machine.Sign, Progress: progress})
		}
	}
}

var keys = [...]string{"approval", "build", "fetch"}

func (w *world) hold(r *run) {
	in := machine.Input{
		Kind: machine.OpenHold, ID: verdict.HoldID{Key: keys[w.rng.IntN(len(keys))]}, Pauses: w.chance(3),
		Limits: verdict.HoldLimits{Cap: w.length(time.Minute)}, By: &record.Opener{}, Gone: map[string]bool{},
	}
	openers := r.node.Openers(in.ID.Key)
	for _, opening := range slices.Sorted(maps.Keys(openers)) {
		in.Gone[opening] = w.chance(2)
	}
	if w.chance(3) {
		in.Limits.Idle = w.length(20 * time.Second)
	}
	if !in.Pauses && w.chance(3) {
		in.Limits.Cap = verdict.Never
	}
	w.step(r, &in)
	if in.Hold != nil {
		r.holds = append(r.holds, in.Hold)
		r.opened++
	}
	if w.checked && in.Hold == nil && !in.Held && !in.Wait && r.node.Phase() != machine.Over {
		w.fail("no hold of %d, and no reason", r.node.Number)
	}
}

func (w *world) release(r *run) {
	if len(r.holds) == 0 {
		return
	}
	at := w.rng.IntN(len(r.holds))
	h := r.holds[at]
	open := !h.Closed()
	in := machine.Input{Kind: machine.CloseHold, Hold: h}
	w.step(r, &in)
	if w.checked && (!h.Closed() || in.Done && !open || !in.Done && open && w.now.Parent == nil) {
		w.fail("a hold of %d that was open: %v is closed: %v", r.node.Number, open, in.Done)
	}
	r.holds[at] = r.holds[len(r.holds)-1]
	r.holds = r.holds[:len(r.holds)-1]
}

func (w *world) admit(r *run) {
	if r.node.Phase() == machine.Over || w.rules.Disabled {
		return
	}
	var c ledger.Call
	c.Use.Counts[verdict.KindRequests] = 1
	c.Use.Counts[verdict.KindInput] = w.rng.Int64N(8)
	c.Use.Counts.SumTokens()
	var o ledger.Outcome
	w.steps, w.mix.charges = w.steps+1, w.mix.charges+1
	r.account.Admit(&c, &o)
	if o.Did == ledger.Charged {
		r.charges = append(r.charges, charge{o.ID, c.Use})
	}
	if o.Look {
		w.lookAround(r)
	}
}

var results = [...]verdict.Result{verdict.ResultOK, verdict.ResultError, ""}

func (w *world) settle(r *run) {
	if len(r.charges) == 0 {
		return
	}
	last := len(r.charges) - 1
	c := r.charges[last]
	r.charges = r.charges[:last]
	used := c.most
	used.Result = results[w.rng.IntN(len(results))]
	if w.chance(8) {
		used.Counts[verdict.KindInput] += w.rng.Int64N(8)
		used.Counts.SumTokens()
	}
	var o ledger.Outcome
	w.steps, w.mix.charges = w.steps+1, w.mix.charges+1
	w.books.Settle(c.id, &used, "", &o)
	if o.Look {
		w.lookAround(r)
	}
}

func (w *world) layer(r *run) {
	if last := w.runs[len(w.runs)-1]; w.chance(2) && last.phase == machine.Running {
		r = last
	}
	if r.depth == maxDepth || len(w.runs) == maxRuns && w.free() < 0 {
		return
	}
	if r.node.Remaining(r.node.At(w.now.At)) <= 0 { // it is late
		if r.node.Phase() == machine.Running {
			w.look(r)
		}
		return
	}
	elapsed := w.now.At % time.Microsecond
	w.begin(r, elapsed)
}

// end ends a run, which is mostly a layer.
func (w *world) end(r *run) {
	if r.outer == nil && !w.chance(20) {
		return
	}
	w.step(r, &machine.Input{Kind: machine.End, Cause: errClosed})
}

func (w *world) cancel(r *run) {
	in := machine.Input{
		Kind: machine.Cancel, Guard: &machine.Guard{
			Reason: "no_output", Observe: w.chance(3),
			Verdict: verdict.Verdict{Action: verdict.Cancel, Directive: verdict.DirectCancel, Rung: 1},
		},
	}
	w.step(r, &in)
}

func (w *world) complete(r *run) {
	in := machine.Input{Kind: machine.Complete}
	if w.step(r, &in); in.Trip != nil {
		r.trip = in.Trip
	}
}

func (w *world) endParent() {
	w.now.Parent = &machine.ParentEnd{Cause: errClosed, Deadline: w.chance(2)}
	w.step(w.session(), &machine.Input{Kind: machine.Parent})
}

// stored has the store take what waits.
func (w *world) stored(r *run) { r.node.Pending.Settle(r.node.Pending.All()) }

// answer is the store's answer to a run's end, of this one or of another.
func (w *world) answer(r *run) {
	for i := range w.runs {
		if r.trip == nil {
			r = w.runs[i]
		}
	}
	if r.trip == nil {
		return
	}
	t := r.trip
	r.trip = nil
	known := w.kept(r, t)
	if !known.StartedAt.IsZero() {
		w.learn(r)
	}
	w.step(r, &machine.Input{Kind: machine.Recorded, Window: known})
	if w.checked && r.node.Phase() == machine.Recording {
		w.fail("%d is still being recorded", r.node.Number)
	}
}

// kept is what the store has after it was told of a run's end.
func (w *world) kept(r *run, t *machine.Trip) *fold.Window {
	switch known := w.known(r); {
	case w.chance(20): // another process was first
		known.Stop = &record.Cancel{Reason: "safety_exceeded"}
		return known
	case w.chance(20):
		known.CompletedAt = w.now.Wall
		return known
	case t.Complete && w.chance(4): // it failed
		return &fold.Window{}
	case t.Complete:
		known.CompletedAt = t.At
		return known
	case w.chance(3) || r.outer != nil && w.chance(2): // it has the stop, or failed to take it in time
		_, known.Stop = t.CancelEvent(&r.node.Name)
		return known
	}
	w.extend(r, t)
	return w.known(r)
}

// extend has another process give a run more time, or more of what a trip is about.
func (w *world) extend(r *run, t *machine.Trip) {
	w.extended = w.extended || r.outer != nil
	if r.given += w.length(time.Minute); t != nil && t.Spend != nil {
		if r.more == nil {
			r.more = map[fold.Key]int64{}
		}
		r.more[t.On] += 1 + w.rng.Int64N(10)
	}
}

// known is what the store has of a run's window.
func (w *world) known(r *run) *fold.Window {
	found := fold.Window{StartedAt: r.node.StartedAt}
	if r.outer == nil && len(w.foreign) > 0 {
		if w.folded < len(w.foreign) {
			h := fold.Of(fold.WindowID{}, w.foreign)
			w.theirs, w.folded = h.At(r.node.StartedAt), len(w.foreign)
		}
		found = w.theirs
	}
	found.Extended, found.Given = r.given, r.more
	return &found
}

// adopt has a run learn what other processes did.
func (w *world) adopt(r *run) {
	switch {
	case w.chance(8):
		w.extend(r, nil)
	case r.outer == nil && w.chance(10):
		w.pauseElsewhere(r)
	}
	known := w.known(r)
	switch {
	case w.chance(200):
		known.Stop = &record.Cancel{Reason: "no_output"}
	case w.chance(200):
		known.CompletedAt = w.now.Wall
	}
	in := machine.Input{Kind: machine.Adopt, Window: known}
	if w.step(r, &in); in.Done {
		w.learn(r)
	}
}

// learn notes that a run knows what the store has.
func (w *world) learn(r *run) {
	if r.outer == nil {
		w.learned = len(w.foreign)
	}
}

// leave has a process that is gone have left the session: with a hold open that stops the wall clock, one of a layer, and
// directives that stand.
func (w *world) leave(r *run) {
	w.left = true
	start, at := event.Stamp(r.node.StartedAt), r.node.At(w.now.At).Truncate(time.Microsecond)
	add := func(kind string, payload any) {
		w.foreign = append(w.foreign, event.Event{
			ID: fmt.Sprint("e-", len(w.foreign)), AggregateID: r.node.Run, Type: kind, Payload: record.JSON(payload),
			Timestamp: noon.Add(time.Duration(len(w.foreign))),
		})
	}
	hold := record.Hold{
		Hold: keys[w.rng.IntN(len(keys))], SessionStartedAt: start, OpenedSeconds: record.ExactSeconds(at / 2),
		CapSeconds: record.FloatSeconds(w.length(time.Minute).Truncate(time.Microsecond)),
	}
	if w.chance(2) {
		hold.Opener = &record.Opener{}
	}
	for range 1 + w.rng.IntN(2) {
		add(event.Hold, hold)
	}
	hold.Hold, hold.Layer = r.node.Run+"/l/"+keys[w.rng.IntN(len(keys))], r.node.Run+"/l"
	add(event.Hold, hold)
	for _, limit := range [...]verdict.Limit{verdict.Idle, verdict.NoProgress, verdict.Hold} {
		add(event.Prefix+"wait", record.Trip{
			Reason: record.LimitReason(string(limit)), SessionStartedAt: start, Directive: "wait", Rung: 1,
			Hold: keys[w.rng.IntN(len(keys))],
		})
	}
	if w.chance(2) {
		r.given = w.length(time.Minute)
	}
}

// pauseElsewhere has another process open a hold that stops the wall clock, or release the last one.
func (w *world) pauseElsewhere(r *run) {
	start, at := event.Stamp(r.node.StartedAt), r.node.At(w.now.At).Truncate(time.Microsecond)
	e := event.Event{
		ID: fmt.Sprint("e-", len(w.foreign)), AggregateID: r.node.Run, Timestamp: noon.Add(time.Duration(len(w.foreign))),
	}
	if w.elsewhere = !w.elsewhere; w.elsewhere {
		e.Type = event.Hold
		e.Payload = record.JSON(record.Hold{
			Hold: keys[w.rng.IntN(len(keys))], SessionStartedAt: start,
			OpenedSeconds: record.ExactSeconds(at - w.length(at+time.Second)/2),
			CapSeconds:    record.FloatSeconds(w.length(time.Minute).Truncate(time.Microsecond)), Opener: &record.Opener{},
		})
	} else {
		e.Type = event.Release
		e.Payload = record.JSON(record.Release{
			Hold: "elsewhere", SessionStartedAt: start, ReleasedSeconds: record.ExactSeconds(at),
			Opening: w.foreign[len(w.foreign)-1].ID,
		})
	}
	w.foreign = append(w.foreign, e)
}
