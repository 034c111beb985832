package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/examples/loop/internal/model"
)

// What one call of a sub-agent costs at most, and what it has cost.
var (
	priceAtMost = watchdog.Amount{Cost: watchdog.Money{Micros: 70_000, Currency: "EUR"}}
	price       = watchdog.Amount{Cost: watchdog.Money{Micros: 50_000, Currency: "EUR"}}
)

// A subAgent works in a layer of the run and spends the run's money.
type subAgent struct {
	wd     *watchdog.Watchdog
	client *http.Client
	url    string
	tools  toolbox

	charge watchdog.Charge
	err    error // of its call
}

// A team is sub-agents that work at the same time.
type team []*subAgent

// delegate has sub-agents make one call after the other until the run ends. All ask for admission before one of them
// makes its call, so that what comes of it does not depend on who is first.
func (a *agent) delegate(number string) (err error) {
	n, err := strconv.Atoi(number)
	if err != nil {
		return fmt.Errorf("not a number of sub-agents: %w", err)
	}
	subAgents, err := a.hire(n)
	defer func() { err = errors.Join(err, subAgents.close()) }()
	for round := 1; err == nil && a.wd.Context().Err() == nil; round++ {
		subAgents.each((*subAgent).ask)
		a.say("round %d: %d of %d calls refused, %s", round, subAgents.refused(), n, total(a.wd.Usage()))
		_, _ = a.wd.Fired() // waits for the end of a run that is about to end
		subAgents.each((*subAgent).call)
		err = subAgents.failed()
		if wasAsked := a.wrapUp; !wasAsked {
			if a.poll(); a.wrapUp {
				a.say("%s: the sub-agents go on", watchdog.DirectiveWrapUp)
			}
		}
	}
	return errors.Join(err, context.Cause(a.wd.Context()))
}

// hire begins a layer for each sub-agent. The team is to be closed also after an error.
func (a *agent) hire(n int) (t team, err error) {
	for i := range n {
		layer, err := a.wd.Layer(fmt.Sprintf("sub-agent-%d", i+1), watchdog.Budget{})
		if err != nil {
			return t, err
		}
		t = append(t, &subAgent{wd: layer, client: a.client, url: a.url, tools: a.tools})
	}
	return t, nil
}

// each has all sub-agents do something at the same time, each in its own goroutine.
func (t team) each(do func(*subAgent)) {
	var all sync.WaitGroup
	for _, s := range t {
		all.Go(func() { do(s) })
	}
	all.Wait()
}

// ask charges the run with the most that the next call can cost.
func (s *subAgent) ask() { s.charge, s.err = s.wd.Admit(s.wd.Context(), "", priceAtMost) }

// call makes the call if it was admitted, settles it, and runs the tool that the model asks for. A call that is cut off
// may have been billed: it stays charged.
func (s *subAgent) call() {
	if s.err == nil {
		s.err = s.turn(s.wd.Context())
	}
}

func (s *subAgent) turn(ctx context.Context) error {
	reply, err := request(ctx, s.client, s.url, model.Request{Turn: 1, Prompt: "Fix your part."}, func(string, ...any) {})
	if err != nil {
		return err
	}
	if err := s.charge.Settle(price); err != nil {
		return err
	}
	_, err = s.tools.call(ctx, reply.text, 1)
	return err
}

// refused returns how many calls were refused.
func (t team) refused() (n int) {
	for _, s := range t {
		if refused := (*watchdog.Refused)(nil); errors.As(s.err, &refused) {
			n++
		}
	}
	return n
}

// failed returns the errors of the calls, but for those that were refused or ended with the run.
func (t team) failed() error {
	var errs []error
	for _, s := range t {
		if refused := (*watchdog.Refused)(nil); s.wd.Context().Err() == nil && !errors.As(s.err, &refused) {
			errs = append(errs, s.err)
		}
	}
	return errors.Join(errs...)
}

func (t team) close() error {
	var errs []error
	for _, s := range t {
		errs = append(errs, s.wd.Close())
	}
	return errors.Join(errs...)
}

// total describes what the run is charged with: what its calls cost, and the most that open ones can cost.
func total(limits []watchdog.Usage) string {
	u := limits[0] // the only one of the budget
	return fmt.Sprintf("%.2f of %.2f %s charged: %.2f used and %.2f admitted",
		units(u.Used+u.Admitted), units(u.Allowed), u.Currency, units(u.Used), units(u.Admitted))
}

// units converts micro-units.
func units(micros int64) float64 { return float64(micros) / 1e6 }
