package loop

// redoLength is how long the input of a change is, in bytes, if it counts as made again whatever comes back. A shorter
// one, such as a line that is appended, may be wanted again.
const redoLength = 120

// A redo counts in how many turns, one right after the other, the same change was made.
type redo struct{ input, count, told uint64 }

// add adds the changes of a turn. The first one is followed, unless the last turn's is among them.
func (r *redo) add(calls []call) {
	next := redo{}
	for i := range calls {
		switch c := &calls[i]; {
		case !c.large:
		case c.input == r.input:
			r.count++
			return
		case next.count == 0:
			next = redo{input: c.input, count: 1}
		}
	}
	*r = next
}

// judge takes as many turns as are asked about for a round.
func (r *redo) judge(calls []call) finding {
	v := judged(Redo, r.count >= redoLimit, r.told >= redoLimit, r.count-r.told >= redoLimit)
	if v.Rule == "" {
		return v
	}
	v.Rounds, v.Since, v.pattern = int(r.count), int(r.count), r.input //nolint:gosec // nobody calls so often
	for i := range calls {
		if calls[i].input == r.input {
			v.Tool = calls[i].name
		}
	}
	return v
}
