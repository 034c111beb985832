package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/config"
	"github.com/seed62658d38/watchdog/watchdoghttp"
)

// meterFlags are the flags of what a command may spend on calls of models.
//
//nolint:lll // a tag cannot be broken
type meterFlags struct {
	Meter      bool            `group:"What it may spend" help:"Experimental: count what its calls of models use. The command finds the proxy that does so in its environment."`
	Tokens     *int64          `group:"What it may spend" placeholder:"N" help:"End it when a call does not fit in so many tokens. These are those in and out."`
	Cost       *watchdog.Money `group:"What it may spend" placeholder:"AMOUNT" help:"The same for money, such as '5.00 EUR'. It needs --prices."`
	Prices     string          `group:"What it may spend" placeholder:"FILE" type:"path" help:"What models cost, as JSON."`
	NoShrink   bool            `group:"What it may spend" rare:"" help:"Leave the maximum of output of each call as it is: one that does not fit with it is refused."`
	ErrorsFree []string        `group:"What it may spend" rare:"" placeholder:"HOST" sep:"none" help:"Charge nothing for calls that this host answers with an error, as for the vendors' own hosts. Can be repeated."`
	ModelMax   []string        `group:"What it may spend" rare:"" placeholder:"MODEL=IN:OUT" sep:"none" help:"The most tokens of one call of a model, for calls that do not say it themselves: 0 for what they do, * for any characters, and a third number for requests of the API's own tools. Can be repeated."`
}

func readTokens(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 || n == watchdog.NoLimit {
		return 0, fmt.Errorf("%q is no number of tokens; write a whole number from 1, such as 200000", text)
	}
	return n, nil
}

func readAmount(text string) (watchdog.Money, error) {
	money, err := config.ParseMoney(text)
	if err == nil && money.Micros == 0 {
		err = errors.New("an amount of 0 lets no call be made; write one such as '5.00 EUR'")
	}
	return money, err
}

// A meterPlan says what the calls of a command are charged to, and what they cost.
type meterPlan struct {
	spend   watchdog.Spend
	ladders watchdog.Ladders
	counts  watchdoghttp.Meter
}

// plan returns what the command may spend, as the configuration file and the environment say, and over them the flags.
// Without --meter it is nil, and so it is where all guards are switched off.
func (f *meterFlags) plan(from *config.Config, stored bool) (*meterPlan, error) {
	if !f.Meter {
		return nil, f.needMeter()
	}
	p := &meterPlan{counts: watchdoghttp.Meter{KeepMaximum: f.NoShrink, ErrorsFree: f.ErrorsFree}}
	if from != nil {
		p.adopt(from)
	}
	set(&p.spend.Tokens, f.Tokens)
	set(&p.spend.Cost, f.Cost)
	if err := errors.Join(f.readPrices(p), f.readMaxima(p), f.checkHosts()); err != nil {
		return nil, err
	}
	if from != nil && from.Disabled {
		return nil, nil
	}
	return p, p.check()
}

// checkHosts refuses what names no host, and so would match none.
func (f *meterFlags) checkHosts() error {
	for _, host := range f.ErrorsFree {
		if strings.ContainsAny(host, "/:@ ") && net.ParseIP(host) == nil || host == "" {
			return fmt.Errorf("--errors-free: %q is no host; write its name alone, such as gateway.example", host)
		}
	}
	return nil
}

// needMeter refuses flags that nothing would heed.
func (f *meterFlags) needMeter() error {
	for _, flag := range []struct {
		name  string
		given bool
	}{
		{"--tokens", f.Tokens != nil}, {"--cost", f.Cost != nil}, {"--prices", f.Prices != ""},
		{"--model-max", len(f.ModelMax) > 0}, {"--no-shrink", f.NoShrink}, {"--errors-free", len(f.ErrorsFree) > 0},
	} {
		if flag.given {
			return fmt.Errorf("%s needs --meter: without it, nothing counts the command's calls of models", flag.name)
		}
	}
	return nil
}

// adopt takes over the limits of a run but those of turns and tools: a proxy sees none.
func (p *meterPlan) adopt(from *config.Config) {
	p.spend, p.ladders = from.Budget.Spend, from.Budget.Ladders
	s, l := &p.spend, &p.ladders
	s.Turns, s.ToolCalls, s.Tools, s.Reserve.Turns, s.Reserve.ToolCalls = 0, 0, nil, 0, 0
	*l = watchdog.Ladders{
		Tokens: l.Tokens, CallInput: l.CallInput, Cost: l.Cost, Requests: l.Requests, Errors: l.Errors,
	}
}

// check refuses a plan that could never end anything, or would cost nothing.
func (p *meterPlan) check() error {
	switch {
	case !p.limits():
		return errors.New("--meter has no limit: write --tokens N or --cost AMOUNT, " +
			"or set one in the spend block of --config")
	case p.currency() != "" && p.counts.Prices == nil:
		return errors.New("a limit of cost needs --prices FILE: without it, every model costs nothing")
	case p.currency() == "" && p.counts.Prices != nil:
		return errors.New("--prices needs a limit of cost: write --cost AMOUNT")
	}
	return nil
}

// limits reports whether the run has a limit of its own that a proxy can count for.
func (p *meterPlan) limits() bool {
	s := &p.spend
	for _, limit := range []int64{
		s.InputTokens, s.OutputTokens, s.Tokens, s.CallInput, s.Cost.Micros, s.Requests, s.Errors, s.Retries,
	} {
		if limit != 0 && limit != watchdog.NoLimit {
			return true
		}
	}
	return false
}

// currency is that of the limits of cost, empty if there is none.
func (p *meterPlan) currency() string {
	return p.spend.Cost.Currency
}

func (f *meterFlags) readPrices(p *meterPlan) error {
	if f.Prices == "" {
		return nil
	}
	text, err := os.ReadFile(f.Prices)
	if err == nil {
		p.counts.Prices, err = watchdoghttp.ReadPrices(text, p.currency())
	}
	if err != nil {
		return fmt.Errorf("--prices: %w", err)
	}
	return nil
}

func (f *meterFlags) readMaxima(p *meterPlan) error {
	p.counts.Models = make(map[string]watchdoghttp.Maximum, len(f.ModelMax))
	for _, text := range f.ModelMax {
		model, most, ok := readMaximum(text)
		if !ok {
			return fmt.Errorf("--model-max %q: write the model and the most tokens in and out of one call, "+
				"such as 'some-model-*=200000:32000'", text)
		}
		if _, twice := p.counts.Models[model]; twice {
			return fmt.Errorf("--model-max names %q twice", model)
		}
		p.counts.Models[model] = most
	}
	return nil
}

func readMaximum(text string) (model string, most watchdoghttp.Maximum, ok bool) {
	at := strings.LastIndexByte(text, '=')
	if at < 1 {
		return "", most, false
	}
	numbers := strings.Split(text[at+1:], ":")
	into := []*int64{&most.Input, &most.Output, &most.ToolRequests}
	if len(numbers) < 2 || len(numbers) > len(into) {
		return "", most, false
	}
	for i, number := range numbers {
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || n < 0 {
			return "", most, false
		}
		*into[i] = n
	}
	return text[:at], most, slices.ContainsFunc(into, func(n *int64) bool { return *n > 0 })
}
