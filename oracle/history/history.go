// Package history makes the random histories that the live package and the frozen one are driven through, and the
// transcripts in which both say what a host, or another program, could see of them.
//
// It knows neither of the two packages. A history is a list of steps that stand for themselves: a step draws what it
// needs from a number of its own, so that steps can be left out, to find out which of them a difference needs.
package history

import (
	"fmt"
	"math/rand/v2"
)

// A Class is what a step is about.
type Class uint8

// The classes. At least a fifth of all steps are of each of the first four.
const (
	Holds Class = iota
	Charges
	Layers
	Store
	Rest
	Classes
)

// String names the class.
func (c Class) String() string {
	return [...]string{"holds", "charges", "layers", "store", "rest"}[c]
}

// An Op is what happens in a step.
type Op uint8

// The steps. What is not there when it is needed, such as a run, is made first.
const (
	HoldOpen  Op = iota
	HoldClose    // of any hold that was ever opened
	HoldEnd      // the end of the context that a hold was opened with
	HoldPass     // time passes, to the cap or the idle of a hold
	HoldSign     // a sign of life while a hold is open
	During
	Admit
	AdmitAgain // under a key that was used before
	Settle
	Void
	ExtendSpend
	SpendFault
	SpendPass // time passes, to the end of a window of a scope
	SpendSync
	LayerOpen
	LayerClose
	LayerDone   // Complete, Cancel or Interrupt of a layer
	LayerPass   // time passes, to a limit of a layer
	LayerSign   // a signal of a layer
	LayerExtend // an Extend or ExtendSpend of a layer
	LayerAsk    // Poll, Pending, Subscribe, Try or Step of a layer
	Fault
	Heal
	Foreign     // an event that another process writes
	StorePass   // time passes, to the next try or to the record timeout
	StorePoll   // Fired of a run
	StoreSync   // Sync of a run
	OtherActs   // a process beside it acts on the run
	Meanwhile   // something happens while a slow store records what a limit came to
	Pass        // time passes, however long
	LimitPass   // time passes, to a limit of a run
	Sign        // a signal
	Extend      //
	End         // Complete, Interrupt, Cancel or Close of a run
	Restart     // the process closes its run or is killed
	Attach      // another run
	Ask         // Poll, Pending, Subscribe, unsubscribe
	Try         // or the end of its work
	Turn        // Step
	ParentEnd   // the context around ends
	Busy        // Busy says something else from now on
	ClockStep   // somebody sets the clock
	WrongInput  // what no call takes
	GuardedLoop // Do
	ActInside   // what packages beside the root do with a run
	ops
)

// weighted are the steps of each class, with how often each is taken.
var weighted = [Classes][]struct {
	op     Op
	weight int
}{
	Holds: {{HoldOpen, 8}, {HoldClose, 4}, {HoldEnd, 1}, {HoldPass, 6}, {HoldSign, 2}, {During, 1}},
	Charges: {
		{Admit, 10}, {AdmitAgain, 2}, {Settle, 6}, {Void, 2}, {ExtendSpend, 2}, {SpendFault, 3}, {SpendPass, 2},
		{SpendSync, 1},
	},
	Layers: {
		{LayerOpen, 9}, {LayerClose, 3}, {LayerDone, 3}, {LayerPass, 5}, {LayerSign, 3}, {LayerExtend, 1}, {LayerAsk, 2},
	},
	Store: {
		{Fault, 8}, {Heal, 3}, {Foreign, 5}, {StorePass, 6}, {StorePoll, 2}, {StoreSync, 3}, {OtherActs, 3}, {Meanwhile, 6},
	},
	Rest: {
		{Pass, 4}, {LimitPass, 6}, {Sign, 6}, {Extend, 2}, {End, 2}, {Restart, 4}, {Attach, 2}, {Ask, 3}, {Try, 3}, {Turn, 4},
		{ParentEnd, 1}, {Busy, 2}, {ClockStep, 1}, {WrongInput, 1}, {GuardedLoop, 1}, {ActInside, 3},
	},
}

var names = [ops]string{
	"HoldOpen", "HoldClose", "HoldEnd", "HoldPass", "HoldSign", "During",
	"Admit", "AdmitAgain", "Settle", "Void", "ExtendSpend", "SpendFault", "SpendPass", "SpendSync",
	"LayerOpen", "LayerClose", "LayerDone", "LayerPass", "LayerSign", "LayerExtend", "LayerAsk",
	"Fault", "Heal", "Foreign", "StorePass", "StorePoll", "StoreSync", "OtherActs", "Meanwhile",
	"Pass", "LimitPass", "Sign", "Extend", "End", "Restart", "Attach", "Ask", "Try", "Turn", "ParentEnd", "Busy",
	"ClockStep", "WrongInput", "GuardedLoop", "ActInside",
}

// String names the step.
func (o Op) String() string { return names[o] }

var classOf = func() (of [ops]Class) {
	for class, all := range weighted {
		for _, one := range all {
			of[one.op] = Class(class)
		}
	}
	return of
}()

// Class is what the step is about.
func (o Op) Class() Class { return classOf[o] }

// A Step is one thing that happens. What it draws besides comes from R.
type Step struct {
	Op Op
	R  uint64
}

// A Script is a history: a world, which is drawn from the seed, and what happens in it.
type Script struct {
	Seed  uint64
	Steps []Step
	// Counted has faults of the store that last for a number of calls. How many calls something takes is no promise.
	Counted bool
	// Calls has the transcript have the calls of the store.
	Calls bool
}

// The shares of the classes in a history, in percent; one of the first four has as much more as share says.
const (
	share  = 15
	lead   = 26
	lowest = 12 // steps of a history
	most   = 36
)

// New draws a history.
func New(seed uint64, counted bool) Script {
	rng := rand.New(rand.NewPCG(seed, 41))
	h := Script{Seed: seed, Steps: make([]Step, lowest+rng.IntN(most-lowest+1)), Counted: counted}
	leading := Class(rng.IntN(int(Rest)))
	for i := range h.Steps {
		class := Class(min(rng.IntN(100-lead)/share, int(Rest)))
		if rng.IntN(100) < lead {
			class = leading
		}
		h.Steps[i] = Step{drawOp(rng, class), rng.Uint64()}
	}
	return h
}

func drawOp(rng *rand.Rand, class Class) Op {
	sum := 0
	for _, one := range weighted[class] {
		sum += one.weight
	}
	n := rng.IntN(sum)
	for _, one := range weighted[class] {
		if n -= one.weight; n < 0 {
			return one.op
		}
	}
	panic("unreachable")
}

// Rand is what the world is drawn from.
func (h *Script) Rand() *rand.Rand { return rand.New(rand.NewPCG(h.Seed, 43)) }

// Rand is what the step draws from.
func (s Step) Rand() *rand.Rand { return rand.New(rand.NewPCG(s.R, 47)) }

// Without is the history without the steps from first up to last.
func (h Script) Without(first, last int) Script {
	h.Steps = append(append([]Step(nil), h.Steps[:first]...), h.Steps[last:]...)
	return h
}

// String names the step and its number.
func (s Step) String() string { return fmt.Sprintf("%s %x", s.Op, s.R) }
