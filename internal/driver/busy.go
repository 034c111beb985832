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

// ask calls the host on another goroutine. Once the answer has come, or is not waited for any more, it calls then with
// what is to be done. The caller holds no lock. If it waits itself, then is nil, and it looks at the run afterwards.
func (a *asking) ask(then func(Work)) {
	r := a.r
	if r.Step(&machine.Input{Kind: machine.Asked, Inquiry: a.inquiry}).Done { // its end was decided meanwhile
		if then != nil {
			then(Work{})
		}
		return
	}
	timer := clocks.AfterFunc(r.Tree.Clock, machine.BusyTimeout, func() {
		if a.answer(false, then) {
			a.reportLate()
		}
	})
	go func() {
		busy := false
		defer func() { // also if the host ends this goroutine
			timer.Stop()
			r.Step(&machine.Input{Kind: machine.Returned})
			a.answer(busy, then)
		}()
		r.CallHost("Busy", func() { busy = r.host.Busy() })
	}()
}

// answer takes what the host said, or that it did not say it in time, and reports whether that was waited for. Unless
// somebody else looks at the run, the answer decides at once: a run around that ends meanwhile does not come between.
func (a *asking) answer(busy bool, then func(Work)) (awaited bool) {
	in := machine.Input{Kind: machine.Answer, Inquiry: a.inquiry, Progress: busy}
	if then == nil {
		return a.r.Step(&in).Done
	}
	k := a.r.Tree.stepAndLook(a.r, &in)
	if in.Done {
		then(k)
	} else {
		k.doAside(a.r.Tree)
	}
	return in.Done
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
	answered := gather.New(len(asks), togetherAfter, doAnswered)
	for _, one := range asks {
		one.ask(func(k Work) { answered.Add(answer{k, one.r.Tree}) })
	}
}

// An answer is what the answer of a session's host came to.
type answer struct {
	work Work
	of   *Tree
}

func doAnswered(answers []answer) {
	all, of := make([]Work, len(answers)), make([]*Tree, len(answers))
	for i := range answers {
		all[i], of[i] = answers[i].work, answers[i].of
	}
	doTogether(all, of)
}
