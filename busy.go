package watchdog

import (
	"time"

	"github.com/seed62658d38/watchdog/internal/bounded"
	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/gather"
	"github.com/seed62658d38/watchdog/internal/machine"
)

// BusyTimeout is how long [Config].Busy may take to answer.
const BusyTimeout = machine.BusyTimeout

// An asking is the host being asked whether it is busy, before a trip of Idle.
type asking struct {
	r       *run
	inquiry *machine.Inquiry
	done    chan struct{} // closed when it was answered, or the run's end was decided
}

// ask calls the host on another goroutine. It calls then once the answer has come, or is not waited for any more. The
// caller holds no lock.
func (a *asking) ask(then func()) {
	r := a.r
	if r.step(&machine.Input{Kind: machine.Asked, Inquiry: a.inquiry}).Done { // its end was decided meanwhile
		then()
		return
	}
	timer := clocks.AfterFunc(r.tree.clock.other, BusyTimeout, func() {
		if a.answer(false) {
			then()
			r.reportLate()
		}
	})
	go func() {
		busy := false
		defer func() { // also if the host ends this goroutine
			timer.Stop()
			r.step(&machine.Input{Kind: machine.Returned})
			if a.answer(busy) {
				then()
			}
		}()
		r.callHost("Busy", func() { busy = r.busyHost() })
	}()
}

// answer takes what the host said, or that it did not say it in time, and reports whether that was waited for.
func (a *asking) answer(busy bool) (awaited bool) {
	return a.r.step(&machine.Input{Kind: machine.Answer, Inquiry: a.inquiry, Progress: busy}).Done
}

// reportLate tells the log once that Busy does not answer.
func (r *run) reportLate() {
	told := false
	r.locked(func() { told, r.extras().late = r.extras().late, true })
	if !told {
		bounded.Quietly(func() {
			r.log().Error("the host's Busy did not answer in time and counts as false", "run", r.node.Run, "timeout",
				BusyTimeout)
		})
	}
}

// togetherAfter is how long the answers of runs that were asked together wait for those of the others.
const togetherAfter = 5 * time.Millisecond

// askTogether asks the hosts of runs that the timer found silent at one moment. What the answers come to is carried out
// together again: at once when all have answered, and soon where one takes its time. It does not block.
func askTogether(asks []*asking) {
	answered := gather.New(len(asks), togetherAfter, lookTogether)
	for _, one := range asks {
		one.ask(func() { answered.Add(one.r) })
	}
}

// lookTogether has the timer look again at runs that were answered.
func lookTogether(answered []*run) {
	all, of := make([]work, len(answered)), make([]*tree, len(answered))
	for i, r := range answered {
		all[i], of[i] = r.tree.step(r, &machine.Input{Kind: machine.Look}), r.tree
	}
	doTogether(all, of)
}
