package verdict

import "math/bits"

// A Range is a call that can be made smaller: it may use Least, which is not more than Most in any kind, and whatever
// lies between the two. It is cut into as many steps as the kind has counts in which they differ most.
type Range struct{ Least, Most Use }

// NoStep is the step of a range of which not even the least fits.
const NoStep = -1

// Steps is the step of the most; that of the least is 0.
func (r *Range) Steps() (steps int64) {
	for kind, most := range r.Most.Counts {
		steps = max(steps, most-r.Least.Counts[kind])
	}
	return steps
}

// At is the use at a step. The money is rounded up and all else down, so that it pays for the tokens.
func (r *Range) At(step int64) Use {
	if step <= 0 {
		return r.Least
	}
	use, steps := r.Most, r.Steps()
	for kind, most := range r.Most.Counts {
		least := r.Least.Counts[kind]
		down, up := portion(most-least, step, steps)
		if Kind(kind) == KindCost {
			down = up
		}
		use.Counts[kind] = least + down
	}
	use.Counts.SumTokens()
	return use
}

// Step is the last step that fits where there is that much room and the call would take between the two.
func (r *Range) Step(room, least, most int64) int64 {
	switch {
	case least > 0 && least > room:
		return NoStep
	case most == 0 || most <= room:
		return r.Steps()
	case room < least: // the least takes nothing of what is exceeded
		return 0
	}
	step, _ := portion(r.Steps(), room-least, most-least)
	return step
}

// portion is part/whole of a number, rounded down and up. The part is not more than the whole.
func portion(of, part, whole int64) (down, up int64) {
	high, low := bits.Mul64(uint64(of), uint64(part))      //nolint:gosec // none is negative
	quotient, rest := bits.Div64(high, low, uint64(whole)) //nolint:gosec // none is negative
	down = int64(quotient)                                 //nolint:gosec // it is not more than of
	return down, down + int64(min(rest, 1))                //nolint:gosec // 0 or 1
}

// Step is the last step of the range that fits in all limits beside what this process used, and the one that would fit
// if open calls used nothing. A run that is only observed refuses none.
func (s *Spend) Step(r *Range) (now, free int64) {
	now = r.Steps()
	free = now
	if s.ObserveOnly {
		return now, free
	}
	for i := range s.Limits {
		limit, count := &s.Limits[i], &s.Counts[i]
		least, most := limit.of(&r.Least), limit.of(&r.Most)
		if limit.Kind == KindCallInput {
			step := r.Step(limit.Max, least, most)
			now, free = min(now, step), min(free, step)
			continue
		}
		opened := count.open(limit)
		free = min(free, r.Step(Room(opened, count.Used), least, most))
		now = min(now, r.Step(Room(opened, AddCount(count.Used, count.Admitted.Count())), least, most))
	}
	return now, free
}

// Room is what is left of a limit, negative if more is used.
func Room(limit, used int64) int64 {
	if limit == Endless {
		return Endless
	}
	return limit - used
}
