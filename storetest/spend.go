package storetest

import (
	"crypto/rand"
	"fmt"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/contract"
)

type (
	spendRule = contract.Rule[watchdog.SpendStore]
	spendEnv  = contract.Env[watchdog.SpendStore]
	spendStep = step[watchdog.SpendStore]
)

// tenant is the scope of the checks that are not about scopes.
const tenant = "tenant-1"

// asks returns a slice that needs so many requests of so many. It needs nothing else, so that nothing else is granted.
// A limit below 64 has no sixty-fourth: what is granted is what is needed.
func asks(id string, least, limit int64) watchdog.Slice {
	return watchdog.Slice{ID: id, Scope: tenant, Least: requests(least), Limit: requests(limit)}
}

func requests(n int64) watchdog.Totals { return watchdog.Totals{Requests: n} }

func inScope(s watchdog.Slice, scope string) watchdog.Slice {
	s.Scope = scope
	return s
}

func freshID() string { return rand.Text() }

func take(e *spendEnv, slice watchdog.Slice) watchdog.Grant {
	g, err := e.Store.Take(e.Ctx, slice)
	contract.Must(err, "take slice %.40q of scope %.40q", slice.ID, slice.Scope)
	return g
}

// takes is a Take that must succeed. It checks the grant.
func takes(slice watchdog.Slice, checks ...func(g watchdog.Grant)) spendStep {
	return func(e *spendEnv) {
		g := take(e, slice)
		for _, check := range checks {
			in(func() { check(g) }, "slice %.40q, %+v of %+v", slice.ID, slice.Least, slice.Limit)
		}
	}
}

// grants takes a slice that must fit, and checks what is granted and what the window is charged with then.
func grants(slice watchdog.Slice, granted, charged watchdog.Totals) spendStep {
	return takes(slice, fits, func(g watchdog.Grant) {
		equal("granted", g.Granted, granted)
		equal("charged", g.Charged, charged)
	})
}

func fits(g watchdog.Grant) { equal("fits", g.Fits, true) }

// gets takes a slice of requests that must be granted.
func gets(slice watchdog.Slice, granted, charged int64) spendStep {
	return grants(slice, requests(granted), requests(charged))
}

// unfit takes a slice that must not fit.
func unfit(slice watchdog.Slice) spendStep {
	return takes(slice, func(g watchdog.Grant) {
		equal("fits", g.Fits, false)
		equal("granted", g.Granted, watchdog.Totals{})
	})
}

// givesBack returns unused requests of a slice.
func givesBack(id string, n int64) spendStep { return returns(id, requests(n)) }

func returns(id string, unused watchdog.Totals) spendStep {
	return func(e *spendEnv) {
		contract.Must(e.Store.Return(e.Ctx, id, unused), "return %+v of slice %.40q", unused, id)
	}
}

// charged returns what the window of a slice is charged with, by asking for what cannot fit.
func charged(e *spendEnv, in watchdog.Slice) watchdog.Totals {
	const far = 1 << 40
	in.ID, in.Least, in.Limit, in.Force = "look", requests(far), watchdog.Totals{}, false
	return take(e, in).Charged
}

// isCharged checks what the window of a slice is charged with.
func isCharged(in watchdog.Slice, want watchdog.Totals) spendStep {
	return func(e *spendEnv) { equal(fmt.Sprintf("charged in scope %.40q", in.Scope), charged(e, in), want) }
}

// uses checks how many requests the tenant is charged with.
func uses(n int64) spendStep { return isCharged(asks("", 0, 0), requests(n)) }

// leaves makes steps, and checks that the window of a slice is charged as before.
func leaves(in watchdog.Slice, steps ...spendStep) spendStep {
	return func(e *spendEnv) { inTurn(inTurn(steps...), isCharged(in, charged(e, in)))(e) }
}
