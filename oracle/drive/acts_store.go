package drive

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/oracle/history"
)

func (w *world) actOnStore(op history.Op, p *process, rng *rand.Rand) {
	g := guardOf(p, rng)
	switch op {
	case history.Fault:
		w.fault(p, rng)
	case history.Heal:
		w.say(history.Did, "the store of %s is well", p.name)
		p.conn.heal()
	case history.Foreign:
		w.foreign(g, rng)
	case history.StorePass:
		d := time.Second * time.Duration(pick(rng, 1, 2, 5, 5, 16, 31, 60))
		d += time.Duration(rng.IntN(2))
		w.say(history.Did, "pass %v", d)
		w.pass(d)
	case history.StorePoll:
		w.lookAt(g)
	case history.StoreSync:
		w.sync(g, rng)
	case history.OtherActs:
		w.otherActs(p, g, rng)
	case history.Meanwhile:
		w.meanwhile(g, rng)
	}
}

// fault has something be wrong with the process's way to the store.
func (w *world) fault(p *process, rng *rand.Rand) {
	if chance(rng, 5) {
		kind := pick(rng, "cancel", "complete", "warning", "hold", "release", "wait", "retry", "interrupt", "extend",
			"progress", "wrap_up")
		w.say(history.Did, "the store of %s refuses %s", p.name, kind)
		p.conn.refuse(kind)
		return
	}
	f := fault(1 + rng.IntN(int(faults)-1))
	if f == exits && w.setup.pollOnly { // it would be the goroutine of the caller
		f = hangs
	}
	if os.Getenv("ORACLE_PROMPT") != "" && (f == slow || f == hangs) {
		f = fails
	}
	calls, until := w.drawSpan(rng)
	w.say(history.Did, "fault %d of %s for %d calls, until %v", f, p.name, calls, until)
	p.conn.break_(f, calls, until)
}

// drawSpan draws how long a fault lasts: until it is healed if both are zero.
func (w *world) drawSpan(rng *rand.Rand) (calls int, until time.Time) {
	n, d := 1+rng.IntN(3), time.Duration(rng.Int64N(int64(20*time.Second)))
	switch kind := rng.IntN(3); {
	case kind == 0 && w.h.Counted:
		return n, time.Time{}
	case kind == 1:
		return 0, w.now().Add(d)
	}
	return 0, time.Time{}
}

func (w *world) sync(g *guard, rng *rand.Rand) {
	wd := g.wd
	ctx, cancel := context.Background(), func() {}
	if w.mock == nil && chance(rng, 5) { // one that has ended already would race with a store that answers at once
		ctx, cancel = context.WithTimeout(ctx, 300*time.Millisecond)
	}
	w.call("Sync "+g.name, func() string {
		defer cancel()
		stop, err := wd.Sync(ctx)
		return stopText(stop) + " " + errText(err)
	})
}

// otherActs has the other process act on the same session.
func (w *world) otherActs(p *process, g *guard, rng *rand.Rand) {
	other := w.procs[0]
	if p == other {
		other = w.procs[1]
	}
	var same *guard
	for _, one := range other.runs {
		if one.session == g.session && one.outer == nil {
			same = one
		}
	}
	switch {
	case same == nil:
		w.attachTo(other, g.session, chance(rng, 4), rng)
	case chance(rng, 3):
		w.extend(same, rng)
	case chance(rng, 3):
		w.endRun(same, rng)
	case chance(rng, 2):
		w.open(same, rng)
	default:
		w.closeHold(same, rng)
	}
	if chance(rng, 2) {
		w.sync(g, rng)
	}
}

// foreign has another program write an event of the run.
func (w *world) foreign(g *guard, rng *rand.Rand) {
	w.foreigns++
	now := w.now().UTC().Truncate(time.Microsecond)
	began, id := g.wd.StartedAt(), g.wd.ID()
	kind, payload, once := w.drawForeign(rng, g, began, now)
	e := watchdog.Event{
		ID: fmt.Sprintf("f-%d", w.foreigns), AggregateType: watchdog.AggregateType, AggregateID: id,
		Type: "runtime.watchdog." + kind, Payload: []byte(payload), Timestamp: now.Add(time.Duration(rng.IntN(3)) - 1),
	}
	if once && g.outer == nil && chance(rng, 2) {
		e.ID = history.DerivedID(id, began.Format(stampFormat), "runtime.watchdog.cancel", "once")
	}
	err := w.db.memory.Append(context.Background(), e)
	w.say(history.Did, "another program writes %s %s %s: %v", id, kind, payload, err)
	w.db.stored("another", e)
}

// drawForeign draws an event. Once tells of an end of the window.
func (w *world) drawForeign(
	rng *rand.Rand, g *guard, began, now time.Time,
) (kind, payload string, once bool) {
	if chance(rng, 8) {
		began = began.Add(-time.Hour)
	}
	start := fmt.Sprintf(`"session_started_at":%q`, began.Format(pick(rng, stampFormat, time.RFC3339Nano)))
	at := now.Format(stampFormat)
	since := now.Sub(began)
	switch rng.IntN(12) {
	case 0, 1:
		return "extend", fmt.Sprintf(`{%s,"extended_at":%q,"elapsed_seconds":1,"extension_seconds":%v,`+
			`"configured_budget_seconds":7200}`, start, at, float64(1+rng.IntN(4000))/4), false
	case 2, 3:
		return "cancel", fmt.Sprintf(`{"reason":%q,%s,"fired_at":%q,"elapsed_seconds":%d,"configured_budget_seconds":60}`,
			pick(rng, "user_cancelled", "idle_timeout", "wall_clock_exceeded"), start, at, int(since.Seconds())), true
	case 4:
		return "complete", fmt.Sprintf(`{"reason":"complete",%s,"completed_at":%q,"elapsed_seconds":%d}`,
			start, at, int(since.Seconds())), true
	case 5, 6:
		return "hold", fmt.Sprintf(`{"hold":%q,%s,"opened_at":%q,"opened_seconds":%.6f,"cap_seconds":%d}`,
			pick(rng, "approval", "tool"), start, at, since.Seconds(), 30+rng.IntN(600)), false
	case 7, 8:
		key, opening := w.openHold(g, rng)
		return "release", fmt.Sprintf(`{"hold":%q,%s,"released_at":%q,"released_seconds":%.6f%s}`,
			key, start, at, since.Seconds(), opening), false
	case 9:
		if g.outer != nil {
			return "interrupt", fmt.Sprintf(`{"signal":"x",%s}`, start), false
		}
		return "resume", fmt.Sprintf(`{"session_started_at":%q,"previous_started_at":%q}`, at,
			began.Format(stampFormat)), false
	case 10:
		return pick(rng, "extend", "cancel", "hold", "note", "progress"), pick(rng, `{}`, `{"session_started_at":7}`,
			fmt.Sprintf(`{%s,"extension_seconds":"much","reason":7,"resets":{}}`, start), `{"a":[1,2`), false
	default:
		return "wrap_up", fmt.Sprintf(`{"reason":"wall_clock",%s,"asked_at":%q,"elapsed_seconds":%d,`+
			`"configured_budget_seconds":%d,"remaining_seconds":1}`, start, at, int(since.Seconds()),
			int(g.budget.WallClock.Seconds())), false
	}
}

// openHold draws a hold that the store has: its key, and its ID as the field of a release.
func (w *world) openHold(g *guard, rng *rand.Rand) (key, opening string) {
	events, _ := w.db.memory.Read(context.Background(), watchdog.AggregateType, g.wd.ID())
	var keys, ids []string
	for _, e := range events {
		var p struct{ Hold string }
		if e.Type == watchdog.EventHold && json.Unmarshal(e.Payload, &p) == nil && p.Hold != "" {
			keys, ids = append(keys, p.Hold), append(ids, e.ID)
		}
	}
	if len(ids) == 0 || chance(rng, 5) {
		return pick(rng, "approval", "tool"), ""
	}
	i := len(ids) - 1 - rng.IntN(min(len(ids), 2))
	return keys[i], fmt.Sprintf(`,"opening":%q`, ids[i])
}

// meanwhile has something happen while a slow store records what a limit came to.
func (w *world) meanwhile(g *guard, rng *rand.Rand) {
	p := g.proc
	if os.Getenv("ORACLE_PROMPT") == "" {
		p.conn.break_(slow, 0, time.Time{})
	}
	next := time.Duration(watchdog.NoLimit)
	for _, edge := range w.edges(g)[1:] {
		if edge > 0 && edge < next {
			next = edge
		}
	}
	if next > time.Hour {
		next = time.Second
	}
	w.say(history.Did, "a slow store at a limit of %s in %v", g.name, next)
	w.pass(next + pick(rng, 1, time.Microsecond))
	w.lookAt(g)
	for range 1 + rng.IntN(3) {
		w.pass(time.Duration(1+rng.IntN(100)) * time.Millisecond)
		w.actMeanwhile(g, rng)
	}
	if chance(rng, 3) {
		p.conn.heal()
	}
	w.pass(time.Duration(1+rng.IntN(2000)) * time.Millisecond)
}

func (w *world) actMeanwhile(g *guard, rng *rand.Rand) {
	switch rng.IntN(14) {
	case 0, 1, 2:
		w.foreignExtend(g, rng)
	case 3:
		w.sign(g, rng)
	case 4:
		w.open(g, rng)
	case 5:
		w.closeHold(g, rng)
	case 6, 7:
		w.endRun(g, rng)
	case 8:
		w.parentEnd(g.proc, rng)
	case 9:
		w.admit(g, "", drawAmount(rng), rng)
	case 10:
		w.layer(g, rng)
	case 11:
		w.sync(g, rng)
	case 12:
		w.try(g, rng)
	default:
		w.extend(g, rng)
	}
}

// foreignExtend has another program give the run more time, in the middle of what it is at.
func (w *world) foreignExtend(g *guard, rng *rand.Rand) {
	w.foreigns++
	e := watchdog.Event{
		ID: fmt.Sprintf("f-%d", w.foreigns), AggregateType: watchdog.AggregateType, AggregateID: g.wd.ID(),
		Type: watchdog.EventExtend, Timestamp: w.now().UTC().Truncate(time.Microsecond),
		Payload: fmt.Appendf(nil, `{"session_started_at":%q,"extension_seconds":%d}`, g.wd.StartedAt().Format(stampFormat),
			1+rng.IntN(600)),
	}
	w.say(history.Did, "another program extends %s: %s", g.name, e.Payload)
	if w.db.memory.Append(context.Background(), e) == nil {
		w.db.stored("another", e)
	}
}
