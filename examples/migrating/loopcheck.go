package migrating

import (
	"crypto/sha256"

	"github.com/seed62658d38/watchdog/loop"
)

// A Call is one of a tool, with what came back.
type Call struct {
	Tool           string
	Input, Outcome []byte
}

//migrating:before

// The last calls that are compared, and how often the same may be among them.
const (
	lastCalls   = 10
	sameAllowed = 5
)

// LoopCheckBefore is asked after each call of a run whether to stop it.
func LoopCheckBefore(calls []Call) (stop bool) {
	if len(calls) < lastCalls {
		return false
	}
	counts := map[[sha256.Size]byte]int{}
	for _, call := range calls[len(calls)-lastCalls:] {
		h := sha256.New()
		for _, part := range [][]byte{[]byte(call.Tool), call.Input, call.Outcome} {
			h.Write(part)
			h.Write([]byte{0})
		}
		var digest [sha256.Size]byte
		h.Sum(digest[:0])
		counts[digest]++
		if counts[digest] > sameAllowed {
			return true
		}
	}
	return false
}

//migrating:after

// LoopCheckAfter is asked after each call of a run whether to stop it.
func LoopCheckAfter(calls []Call) (stop bool) {
	var turns [][]loop.Step
	for _, call := range calls[max(0, len(calls)-100):] {
		turns = append(turns, []loop.Step{{Tool: call.Tool, Input: call.Input, Outcome: call.Outcome}})
	}
	v, err := loop.Check(turns, loop.Config{Waits: loop.End})
	return err == nil && v.Advice == loop.End
}

//migrating:end
