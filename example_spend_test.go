package watchdog_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/seed62658d38/watchdog"
)

// A call is admitted with the most that it can cost, and settled with what it did cost. Two sub-agents that call at the
// same time cannot overshoot together: the second call is refused before it is made.
func ExampleWatchdog_Admit() {
	ctx := context.Background()
	eur := func(micros int64) watchdog.Money { return watchdog.Money{Micros: micros, Currency: "EUR"} }
	wd, err := watchdog.New(ctx, watchdog.Run{ID: "session-1"}, watchdog.Config{
		Budget: watchdog.Budget{
			Spend:   watchdog.Spend{Cost: eur(1_000_000)},
			Ladders: watchdog.Ladders{Cost: []watchdog.DirectiveKind{watchdog.DirectiveWait}}, // else the run ends
		},
		PollOnly: true, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer wd.Close()

	first, err := wd.Admit(ctx, "turn-1", watchdog.Amount{Cost: eur(700_000)})
	fmt.Println("first:", err)
	_, err = wd.Admit(ctx, "turn-2", watchdog.Amount{Cost: eur(400_000)})
	fmt.Println("second:", err)

	if err := first.Settle(watchdog.Amount{Cost: eur(150_000)}); err != nil { // what the provider bills
		fmt.Println(err)
	}
	_, err = wd.Admit(ctx, "turn-2", watchdog.Amount{Cost: eur(400_000)})
	fmt.Println("second, later:", err)
	fmt.Println(wd.Usage()[0])
	// Output:
	// first: <nil>
	// second: call of run session-1 refused: cost: 0.30 EUR of 1.00 EUR left beside 0.70 EUR for calls under way, and this call may need 0.40 EUR; make it smaller, or extend the limit
	// second, later: <nil>
	// cost: 0.15 EUR of 1.00 EUR used, 0.40 EUR admitted
}

// The reserve is what a run keeps for returning what it has. The first call that does not fit in the rest asks for
// that, and the run may use the reserve then.
func ExampleRefused() {
	ctx := context.Background()
	wd, err := watchdog.New(ctx, watchdog.Run{}, watchdog.Config{
		Budget: watchdog.Budget{
			Spend: watchdog.Spend{Tokens: 10_000, Reserve: watchdog.Totals{Tokens: 1000}},
		},
		PollOnly: true, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer wd.Close()

	for {
		charge, err := wd.Admit(ctx, "", watchdog.Amount{InputTokens: 3000, OutputTokens: 1000})
		var refused *watchdog.Refused
		if errors.As(err, &refused) {
			fmt.Println(refused.Limit, "used:", refused.Used, "of", refused.Allowed, "needed:", refused.Needed)
			break
		}
		if err := charge.Settle(watchdog.Amount{InputTokens: 3000, OutputTokens: 500}); err != nil {
			fmt.Println(err)
			return
		}
	}
	for directive := range wd.Pending() {
		fmt.Println("asked to", directive.Kind)
	}
	_, err = wd.Admit(ctx, "", watchdog.Amount{InputTokens: 2000, OutputTokens: 800}) // a shorter call, to sum up
	fmt.Println(err)
	// Output:
	// tokens used: 7000 of 10000 needed: 4000
	// asked to wrap_up
	// <nil>
}

// A host keeps Usage, and hands it in when its process begins again. What was used counts on, and what was admitted stays
// charged, because a call that was cut off may be billed.
func ExampleSpend_restart() {
	ctx := context.Background()
	var kept []watchdog.Usage // in the host's database
	begin := func() (*watchdog.Watchdog, error) {
		return watchdog.New(ctx, watchdog.Run{ID: "session-1"}, watchdog.Config{
			Budget:   watchdog.Budget{Spend: watchdog.Spend{Requests: 100, Used: kept}},
			PollOnly: true, Logger: slog.New(slog.DiscardHandler),
		})
	}
	wd, err := begin()
	if err != nil {
		fmt.Println(err)
		return
	}
	first, err := wd.Admit(ctx, "", watchdog.Amount{Requests: 50})
	if err == nil {
		err = first.Settle(watchdog.Amount{Requests: 20})
	}
	fmt.Println("first:", err)
	_, err = wd.Admit(ctx, "", watchdog.Amount{Requests: 30})
	fmt.Println("second:", err)
	kept = wd.Usage() // before the call is made, in which the process is killed
	_ = wd.Close()

	wd, err = begin()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer wd.Close()
	_, err = wd.Admit(ctx, "", watchdog.Amount{Requests: 51})
	fmt.Println("after the restart:", err)
	// Output:
	// first: <nil>
	// second: <nil>
	// after the restart: call of run session-1 refused: requests: 50 of 100 left, and this call may need 51; make it smaller, or extend the limit
}
