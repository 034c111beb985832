package story

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

// A Moment is something that happened to a run, in one sentence.
type Moment struct {
	At   time.Time
	What string
}

// Moments are what happened in the window before its end, in the order of time.
func (s Story) Moments() (all []Moment) {
	for _, r := range s.Asked {
		all = append(all, Moment{r.At, r.String()})
	}
	for _, x := range s.Extensions {
		all = append(all, Moment{x.At, x.String()})
	}
	for _, h := range s.Holds {
		what := "hold " + h.String()
		if h.ReleasedAt.IsZero() && s.End != nil {
			what = fmt.Sprintf("hold %q was open until the end; it stopped the wall clock for at most %v", h.Key, h.Cap)
		}
		all = append(all, Moment{h.OpenedAt, what})
	}
	for _, o := range s.Overruns {
		all = append(all, Moment{o.At, o.String()})
	}
	for _, i := range s.Interrupts {
		all = append(all, Moment{i.At, "interrupted by " + i.Signal})
	}
	slices.SortStableFunc(all, func(a, b Moment) int { return a.At.Compare(b.At) })
	return all
}

// AllowedText says which limits are known.
func (s Story) AllowedText() string {
	limits := make([]string, len(s.Allowed))
	for i, l := range s.Allowed {
		limits[i] = l.String()
		if reserve := s.reserveOf(l); reserve != "" {
			limits[i] += fmt.Sprintf(" (%s of it reserve)", reserve)
		}
	}
	return strings.Join(limits, ", ")
}

// LeftAlive says what is known to be left alive, or may be; empty for nothing.
func (s Story) LeftAlive() string {
	for _, o := range slices.Backward(s.Overruns) {
		if o.OfCommand {
			return o.survivors()
		}
	}
	if s.End != nil && s.End.StopFailed {
		return "what works on it could not be stopped, and may be alive"
	}
	return ""
}

// SpentText says how far a counted limit is used.
func SpentText(s session.Spent) string { return usedOf(s).String() }

func usedOf(s session.Spent) watchdog.Usage {
	return watchdog.Usage{
		Limit: s.Limit, Tool: s.Tool, Scope: s.Scope, Currency: s.Currency,
		Used: s.Used, Admitted: s.Admitted, Allowed: s.Allowed,
	}
}
