package verdict

import "time"

// wrapUpDue reports whether only the reserve is left. A call that does not fit shows it, too.
func (c *Count) wrapUpDue(l *CountLimit) bool {
	return l.Reserve > 0 && !c.Wrapped && (c.tripped == refusedCall || c.Used >= c.open(l)) && !c.exceeded(l)
}

// warningDue returns the next fraction that is reached. Nothing has no fractions.
func (c *Count) warningDue(l *CountLimit) (fraction float64, due bool) {
	allowed := c.allowed(l)
	if c.Warned >= len(l.WarnAt) || l.Max == Endless || allowed == 0 {
		return 0, false
	}
	fraction = l.WarnAt[c.Warned]
	return fraction, float64(c.Used) >= fraction*float64(allowed)
}

// quietTo returns up to where nothing will be due: neither what is exceeded, nor a warning, nor to wrap up.
func (c *Count) quietTo(l *CountLimit) int64 {
	quiet := c.allowed(l)
	if c.Warned < len(l.WarnAt) {
		quiet = min(quiet, int64(l.WarnAt[c.Warned]*float64(quiet)))
	}
	if l.Reserve > 0 && !c.Wrapped {
		quiet = min(quiet, c.open(l))
	}
	return quiet
}

func (c *Count) due(l *CountLimit) bool {
	_, warning := c.warningDue(l)
	return warning || c.wrapUpDue(l)
}

// judgeSpend returns what is due of the counted limits: first what is exceeded, then a warning, then to wrap up. What a
// look finds was exceeded at its instant.
func judgeSpend(limits *Limits, seen *Snapshot, now time.Duration) (v Verdict, due bool) {
	if seen.Spend == nil {
		return v, false
	}
	for what := range 3 { // a call of one of these through a variable would move their arguments to the heap
		for i := range seen.Spend.Limits {
			l, c := &seen.Spend.Limits[i], &seen.Spend.Counts[i]
			switch {
			case what == 0 && v.tripped(limits, seen, c, l), what == 1 && v.warned(c, l), what == 2 && v.wrapUp(c, l):
			default:
				continue
			}
			v.Limit, v.Used, v.Count = l.Kind.Limit(), seen.worked(now), seen.Spend.Use(i)
			if c.needed > 0 { // a run that is only observed may have admitted the call since
				v.Count.Admitted = c.beside
			}
			if v.Next = now; v.Action == Cancel {
				v.Next = Never
			}
			return v, true
		}
	}
	return v, false
}

// tripped makes it the verdict of a limit that was exceeded.
func (v *Verdict) tripped(limits *Limits, seen *Snapshot, c *Count, l *CountLimit) bool {
	if c.tripped == 0 || c.wrapUpDue(l) {
		return false
	}
	attempts := c.Rung.Attempts
	if seen.Signs != nil {
		attempts = seen.Signs.attempts(c.Rung)
	}
	v.Action = Direct
	v.Directive, v.Rung, v.Last = limits.Ladders.next(l.Kind.Limit(), attempts)
	if v.Directive == DirectCancel {
		v.Action = Cancel
	}
	return true
}

func (v *Verdict) warned(c *Count, l *CountLimit) bool {
	fraction, due := c.warningDue(l)
	if due {
		v.Action, v.Fraction = Warn, fraction
	}
	return due
}

func (v *Verdict) wrapUp(c *Count, l *CountLimit) bool {
	due := c.wrapUpDue(l)
	if due {
		v.Action, v.Directive, v.Rung = Direct, DirectWrapUp, 1
	}
	return due
}

func (s *Spend) apply(v Verdict, now time.Duration) {
	c := &s.Counts[v.Count.Index]
	c.quiet, c.opened = 0, 0
	switch {
	case v.Action == Warn:
		c.Warned++
		return
	case v.Directive == DirectWrapUp:
		c.Wrapped = true
	case v.Action == Cancel:
		c.Spent = true
	default:
		c.Rung = Rung{Attempts: v.Rung, At: now, Last: v.Last}
	}
	c.tripped, c.needed = 0, 0
}
