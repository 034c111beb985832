package verdict

import "github.com/seed62658d38/watchdog/internal/taxonomy"

// A CountID tells a counted limit of a run from the others: that of a kind, of one tool or of all.
type CountID struct {
	Kind Kind
	Tool string
}

// A CountLimit is how much of something a run may use. It is exceeded when more than Max was used.
type CountLimit struct {
	CountID
	// Max is what may be used, Reserve the part of it that is kept for wrapping up.
	Max, Reserve int64
	// Used is what was used before.
	Used int64
	// WarnAt holds fractions of Max, ascending.
	WarnAt []float64
}

// A CountUse is how far a counted limit is used.
type CountUse struct {
	CountID
	// Used is settled, Admitted what open calls may use besides, Allowed the limit with its extensions.
	Used, Admitted, Allowed int64
	// Needed is what the call may use that did not fit, 0 if none was refused.
	Needed int64
	// Index is that of the limit in Limits.Counts.
	Index int
}

// A Count is what is known of a counted limit.
type Count struct {
	// Used is what was settled, with what was used before. Admitted is what open calls may use besides.
	Used     int64
	Admitted Tally
	// Each call reads these, too, so they lie beside the counts.
	quiet  int64 // below it nothing is due; 0 if that is unknown
	opened int64 // up to where calls are admitted; 0 if that is unknown

	Extended int64
	// Warned is how many of WarnAt were given; Wrapped says that the host was asked to wrap up, and may use the reserve.
	Warned  int
	Wrapped bool
	// Spent says that an observe-only run has exceeded it.
	Spent bool
	Rung  Rung
	// Refused is how many calls did not fit, also those that are made all the same in a run that is only observed.
	Refused int64

	tripped tripped
	needed  int64 // of the call that was refused
	beside  int64 // what open calls may have used then
}

// tripped is what happened to a counted limit and was not judged yet.
type tripped int

const (
	refusedCall tripped = iota + 1 // a call did not fit
	usedTooMuch                    // a call used more than was left
)

// A Use is what one call may use, or has used.
type Use struct {
	Counts
	// Tool is the one that is called.
	Tool string
	// Result is how the call ended, empty for a call that counts in no row.
	Result Result
}

// A Result is how a call ended.
type Result string

// The results. A call that is to be tried again is no error.
const (
	ResultOK    Result = "ok"
	ResultError Result = "error"
	ResultRetry Result = "retry"
)

// Spend is what a run used up besides time. The counts are in the order of the limits, which are those of the run. It
// is not safe for concurrent use.
type Spend struct {
	Limits []CountLimit
	Counts []Count
	// ObserveOnly says that no call is refused.
	ObserveOnly bool
}

// NewSpend returns what a run with the limits has used, which is what it had used before.
func NewSpend(limits []CountLimit, observeOnly bool) *Spend {
	s := &Spend{Limits: limits, Counts: make([]Count, len(limits)), ObserveOnly: observeOnly}
	for i := range limits {
		s.Counts[i].Used = limits[i].Used
	}
	return s
}

// Admit charges what a call may use at most, unless it does not fit in a limit: then it charges nothing and returns the
// index of the first such limit. Else it returns -1.
func (s *Spend) Admit(most *Use) (refuses int) {
	for i := range s.Limits {
		limit, count := &s.Limits[i], &s.Counts[i]
		n := limit.Of(most)
		if n == 0 {
			continue
		}
		if count.with(n) > count.opened && !count.fits(limit, n) {
			s.void(most, i)
			return i
		}
		if limit.Kind.Adds() {
			count.Admitted.Add(n)
		}
	}
	return -1
}

func (c *Count) fits(l *CountLimit, n int64) bool {
	if l.Kind == KindCallInput {
		return n <= l.Max
	}
	if c.opened == 0 {
		c.opened = c.open(l)
	}
	return Fits(n, c.opened, AddCount(c.Used, c.Admitted.Count()))
}

// with is what is used and admitted, with one more call.
func (c *Count) with(n int64) int64 { return AddCount(AddCount(c.Used, c.Admitted.Count()), n) }

// AdmitAll is Admit whether it fits or not.
func (s *Spend) AdmitAll(most *Use) {
	for i := range s.Limits {
		if limit := &s.Limits[i]; limit.Kind.Adds() {
			s.Counts[i].Admitted.Add(limit.Of(most))
		}
	}
}

// Refused notes that a call did not fit in a limit, for the next look. It reports whether that has to look.
func (s *Spend) Refused(i int, most *Use) (look bool) {
	if look = s.trip(i, refusedCall); look && s.Counts[i].needed == 0 {
		s.Counts[i].needed, s.Counts[i].beside = s.Limits[i].Of(most), s.Counts[i].Admitted.Count()
	}
	return look
}

// trip notes what happened to a limit. What is told once is not noted again, nor what happens before the next look.
func (s *Spend) trip(i int, what tripped) (look bool) {
	count := &s.Counts[i]
	if count.Spent || count.Rung.Last || count.tripped != 0 {
		return count.tripped != 0
	}
	count.tripped = what
	return true
}

// Void takes back an admission of which nothing was used.
func (s *Spend) Void(most *Use) { s.void(most, len(s.Limits)) }

func (s *Spend) void(most *Use, first int) {
	for i := range first {
		if limit := &s.Limits[i]; limit.Kind.Adds() {
			s.Counts[i].Admitted.Sub(limit.Of(most))
		}
	}
}

// Settle charges what a call has used in place of its admission. It reports whether the run has to be looked at.
func (s *Spend) Settle(most, used *Use) (look bool) {
	for i := range s.Limits {
		limit, count := &s.Limits[i], &s.Counts[i]
		if !limit.Kind.Adds() {
			look = s.settle(i, used) || look
			continue
		}
		count.Admitted.Sub(limit.Of(most))
		n := limit.Of(used)
		count.Used = AddCount(count.Used, n)
		if n > 0 && count.Used >= count.quiet {
			look = s.reached(i) || look
		}
	}
	return look
}

// settle charges a limit that does not add up.
func (s *Spend) settle(i int, used *Use) (look bool) {
	limit, count := &s.Limits[i], &s.Counts[i]
	if !limit.Kind.inRow() {
		return limit.Of(used) > limit.Max && s.trip(i, usedTooMuch)
	}
	count.Used = limit.row(count.Used, used.Result)
	return used.Result == limit.result() && s.reached(i)
}

// reached looks at a limit of which more was used, and notes up to where nothing is due.
func (s *Spend) reached(i int) (look bool) {
	limit, count := &s.Limits[i], &s.Counts[i]
	if count.exceeded(limit) && s.trip(i, usedTooMuch) || count.due(limit) {
		return true
	}
	count.quiet = count.quietTo(limit)
	return false
}

// Extend gives a limit more, from now on with its reserve and its warnings again.
func (s *Spend) Extend(i int, more int64) {
	count := &s.Counts[i]
	count.Extended = AddCount(count.Extended, more)
	count.Warned, count.Wrapped, count.Spent, count.Rung = 0, false, false, Rung{}
	count.tripped, count.needed, count.quiet, count.opened = 0, 0, 0, 0
}

// Restore puts a limit where it stood before the attach: what it was given more, which warnings it had, whether the
// host was asked to wrap up, and where it stands on its ladder.
func (s *Spend) Restore(i int, extended int64, warned int, wrapped bool, rung Rung) {
	count := &s.Counts[i]
	count.Extended, count.Warned, count.Wrapped, count.Rung = extended, warned, wrapped, rung
	count.quiet, count.opened = 0, 0
}

// Use returns how far a limit is used.
func (s *Spend) Use(i int) CountUse {
	limit, count := &s.Limits[i], &s.Counts[i]
	return CountUse{
		CountID: limit.CountID, Used: count.Used, Admitted: count.Admitted.Count(), Allowed: count.allowed(limit),
		Needed: count.needed, Index: i,
	}
}

// Of returns how much of what the limit limits is in a use.
func (l *CountLimit) Of(u *Use) int64 {
	if l.Kind < kinds && l.Tool == "" { // written so that it is inlined
		return u.Counts[l.Kind]
	}
	return l.ofOther(u)
}

func (l *CountLimit) ofOther(u *Use) int64 {
	switch {
	case l.Tool != "" && l.Tool != u.Tool:
		return 0
	case l.Kind == KindCallInput:
		return u.Counts[KindInput]
	case l.Kind.Adds():
		return u.Counts[l.Kind]
	}
	return 0
}

// row returns how many calls in a row had the result that the limit counts, after one more. A call that succeeded ends
// any row; one that is to be tried again ends none.
func (l *CountLimit) row(before int64, result Result) int64 {
	switch result {
	case l.result():
		return before + 1
	case ResultOK:
		return 0
	}
	return before
}

func (l *CountLimit) result() Result {
	if l.Kind == KindRetries {
		return ResultRetry
	}
	return ResultError
}

func (c *Count) allowed(l *CountLimit) int64 { return AddCount(l.Max, c.Extended) }

// open is up to where calls are admitted: the limit, less the reserve until the host was asked to wrap up.
func (c *Count) open(l *CountLimit) int64 {
	allowed := c.allowed(l)
	if allowed == Endless || c.Wrapped {
		return allowed
	}
	return allowed - l.Reserve
}

func (c *Count) exceeded(l *CountLimit) bool { return c.Used > c.allowed(l) }

func (l Limit) counted() bool {
	known := taxonomy.Find(string(l))
	return known != nil && known.Counts
}
