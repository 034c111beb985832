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
		SpendStore: &watchdog.Memory{}, // of this process; a store in a database keeps what was spent
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

// A call that can be made smaller takes what there is, and at least 1,024 tokens of output: its maximum of output is set
// to what it was granted.
func ExampleWatchdog_AdmitWithin() {
	ctx := context.Background()
	wd, err := watchdog.New(ctx, watchdog.Run{ID: "session-1"}, watchdog.Config{
		Budget:   watchdog.Budget{Spend: watchdog.Spend{Tokens: 10_000}},
		PollOnly: true, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer wd.Close()

	least := watchdog.Amount{InputTokens: 3_000, OutputTokens: 1_024}
	most := watchdog.Amount{InputTokens: 3_000, OutputTokens: 32_000}
	charge, granted, err := wd.AdmitWithin(ctx, "turn-1", least, most, 0)
	fmt.Println(granted.OutputTokens, err)

	err = charge.Settle(watchdog.Amount{InputTokens: 2_800, OutputTokens: 1_200}) // what the provider bills
	fmt.Println(wd.Usage()[0], err)
	// Output:
	// 7000 <nil>
	// tokens: 4,000 of 10,000 used <nil>
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

// Runs of a tenant share a limit for a day, whatever process they are in: what one of them used is not there for the
// others.
func ExampleSharedSpend() {
	ctx, store := context.Background(), &watchdog.Memory{}
	begin := func(id string) (*watchdog.Watchdog, error) {
		return watchdog.New(ctx, watchdog.Run{ID: id}, watchdog.Config{
			SpendStore: store,
			Scopes: []watchdog.SharedSpend{{
				Scope: "tenant-7", Spend: watchdog.Spend{Requests: 100},
				Period: watchdog.PeriodDay, Zone: "UTC",
			}},
			PollOnly: true, Logger: slog.New(slog.DiscardHandler),
		})
	}
	one, err := begin("session-1")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer one.Close()
	other, err := begin("session-2")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer other.Close()

	charge, err := one.Admit(ctx, "", watchdog.Amount{Requests: 70})
	if err == nil {
		err = charge.Settle(watchdog.Amount{Requests: 70})
	}
	fmt.Println("one:", err)
	_, err = other.Admit(ctx, "", watchdog.Amount{Requests: 31})
	fmt.Println("other:", err)
	fmt.Println("one goes on:", one.Stop() == nil)
	fmt.Println("other has ended:", errors.Is(context.Cause(other.Context()), watchdog.RequestsExceeded))
	// Output:
	// one: <nil>
	// other: call of run session-2 refused: requests shared by "tenant-7": 30 of 100 left, and this call may need 31; make it smaller, or extend the limit
	// one goes on: true
	// other has ended: true
}
