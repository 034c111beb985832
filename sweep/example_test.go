package sweep_test

import (
	"context"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

// A session that was made long ago and has had no event for an hour is stalled.
func stalledSession(store *session.Memory) {
	err := store.Put(context.Background(), session.Session{
		RunID: "s-1", Status: session.Active, Host: "worker-7", Attempt: 1,
		CreatedAt: time.Now().Add(-3 * time.Hour), LastEventAt: time.Now().Add(-time.Hour),
	})
	if err != nil {
		fmt.Println(err)
	}
}

func ExampleSweeper_Sweep() {
	store := &session.Memory{} // or that of store/sqlite or store/postgres
	stalledSession(store)
	sweeper, err := sweep.New(store, store, sweep.Config{
		StopHook: func(_ context.Context, s session.Session) error {
			fmt.Println("stop the agents of", s.RunID, "on", s.Host)
			return nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	pass, err := sweeper.Sweep(context.Background())
	for _, c := range pass.Cases {
		fmt.Println(c.Session.RunID, c.Handling, "after", c.Silence.Truncate(time.Minute), "of", c.Threshold)
	}
	fmt.Println(pass.Cancelled, err)
	// Output:
	// stop the agents of s-1 on worker-7
	// s-1 cancelled after 1h0m0s of 10m0s
	// 1 <nil>
}

// A dry run says what would be cancelled, which is a good first week.
func ExampleConfig_dryRun() {
	store := &session.Memory{}
	stalledSession(store)
	sweeper, err := sweep.New(store, store, sweep.Config{DryRun: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	pass, err := sweeper.Sweep(context.Background())
	fmt.Println(pass.Cases[0].Session.RunID, pass.Cases[0].Handling, pass.Cancelled, err)
	// Output: s-1 would_cancel 0 <nil>
}

// Run blocks until its context ends.
func ExampleSweeper_Run() {
	store := &session.Memory{}
	stalledSession(store)
	ctx, stop := context.WithCancel(context.Background())
	sweeper, err := sweep.New(store, store, sweep.Config{
		StartupDelay: watchdog.None,
		OnPass: func(p sweep.Pass) {
			fmt.Println("cancelled", p.Cancelled)
			stop()
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(sweeper.Run(ctx))
	// Output:
	// cancelled 1
	// <nil>
}
