package sweeptest_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

// A job is what a child does until its input ends: it sweeps, or with Run it is the host of a run.
type job struct {
	DSN string

	Run       string
	StartedAt time.Time
	Host      string
	Resume    bool
	Poll      time.Duration
}

// A line is what a child prints.
type line struct {
	// Attempt is the host's attempt at the run, Cause the cause of the context's end.
	Attempt watchdog.Attempt    `json:",omitzero"`
	Cause   watchdog.StopReason `json:",omitempty"`
}

var quiet = slog.New(slog.DiscardHandler)

// work is the child's main.
func work(text string, in io.Reader, out io.Writer) error {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, in)
		stop()
	}()
	s, err := openStore(ctx, j.DSN)
	for began := time.Now(); err != nil && ctx.Err() == nil && time.Since(began) < patience; {
		time.Sleep(20 * time.Millisecond) // like a supervisor that restarts a program while the server is down
		s, err = openStore(ctx, j.DSN)
	}
	if err != nil && ctx.Err() != nil {
		return nil //nolint:nilerr // it was asked to end before the server was back
	}
	if err != nil {
		return err
	}
	if j.Run == "" {
		err = sweepAll(ctx, s)
	} else {
		err = j.host(ctx, s, json.NewEncoder(out))
	}
	return errors.Join(err, s.Close())
}

// sweepAll sweeps in short passes of few cancels, so that many processes take part.
func sweepAll(ctx context.Context, s store) error {
	sweeper, err := sweep.New(s, s, sweep.Config{
		Interval: 20 * time.Millisecond, StartupDelay: watchdog.None, MaxCancellationsPerRun: 20, Logger: quiet,
	})
	if err != nil {
		return err
	}
	return sweeper.Run(ctx)
}

// host attaches to a run, prints the attempt and later the run's end, and waits for the end of the input. It says soon
// that its run is quiet: after a quarter of its threshold.
func (j job) host(ctx context.Context, s store, lines *json.Encoder) error {
	keeper, err := session.NewKeeper(session.KeeperConfig{
		Store: s, Host: j.Host, Promise: session.ShortestPromise, Threshold: time.Second,
		Pace: 50 * time.Millisecond, Poll: j.Poll, Logger: quiet,
	})
	if err != nil {
		return err
	}
	keeping, stop := context.WithCancel(context.Background())
	var kept sync.WaitGroup
	kept.Go(func() { _ = keeper.Run(keeping) })
	defer kept.Wait()
	defer stop()
	attach := watchdog.New
	if j.Resume {
		attach = watchdog.Resume
	}
	cfg := watchdog.Config{Store: s, Keeper: keeper, Logger: quiet}
	wd, err := attach(context.Background(), watchdog.Run{ID: j.Run, StartedAt: j.StartedAt}, cfg)
	if err != nil {
		return err
	}
	wd.Activity() // a run that never signals is not silent
	err = lines.Encode(line{Attempt: wd.Attempt()})
	select {
	case <-wd.Context().Done():
		var said line
		if stopped := (*watchdog.Stop)(nil); errors.As(context.Cause(wd.Context()), &stopped) {
			said.Cause = stopped.Code
		}
		err = errors.Join(err, lines.Encode(said))
		<-ctx.Done()
	case <-ctx.Done():
	}
	return errors.Join(err, wd.Close())
}
