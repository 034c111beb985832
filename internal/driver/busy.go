package driver

import (
	"time"

	"github.com/seed62658d38/watchdog/internal/bounded"
	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/gather"
	"github.com/seed62658d38/watchdog/internal/machine"
)

// An asking is the host being asked whether it is busy, before a trip of Idle.
type asking struct {
	r       *Run
	inquiry *machine.Inquiry
	done    chan struct{} // closed when it was answered, or the run's end was decided
}

// ask calls the host on another goroutine. It calls then once the answer has come, or is not waited for any more. The
// caller holds no lock.
func (a *asking) ask(then func()) {
	r := a.r
	if r.Step(&machine.Input{Kind: machine.Asked, Inquiry: a.inquiry}).Done { // its end was decided meanwhile
		then()
		return
	}
	timer := clocks.AfterFunc(r.Tree.Clock, machine.BusyTimeout, func() {
		if a.answer(false) {
			then()
			a.reportLate()
		}
	})
	go func() {
		busy := false
		defer func() { // also if the host ends this goroutine
			timer.Stop()
			r.Step(&machine.Input{Kind: machine.Returned})
			if a.answer(busy) {
				then()
			}
		}()
		r.CallHost("Busy", func() { busy = r.host.Busy() })
	}()
}

// answer takes what the host said, or that it did not say it in time, and reports whether that was waited for.
func (a *asking) answer(busy bool) (awaited bool) {
	return a.r.Step(&machine.Input{Kind: machine.Answer, Inquiry: a.inquiry, Progress: busy}).Done
}

// lookAgain has the timer look at the run after the host was asked. With PollOnly the next poll does.
func (a *asking) lookAgain() {
	if !a.r.Tree.Inline {
		a.r.Step(&machine.Input{Kind: machine.Look})
	}
}

// reportLate tells the log once that Busy does not answer.
func (a *asking) reportLate() {
	r, told := a.r, false
	r.Locked(func() { told, r.extras().late = r.extras().late, true })
	if !told {
		bounded.Quietly(func() {
			r.host.Log().Error("the host's Busy did not answer in time and counts as false", "run", r.Node.Run, "timeout",
				machine.BusyTimeout)
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
func lookTogether(answered []*Run) {
	all, of := make([]Work, len(answered)), make([]*Tree, len(answered))
	for i, r := range answered {
		all[i], of[i] = r.Tree.Step(r, &machine.Input{Kind: machine.Look}), r.Tree
	}
	doTogether(all, of)
}
