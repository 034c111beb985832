package sweeptest_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	// Interval is the time between passes, Cap the most cancels in a pass.
	Interval time.Duration
	Cap      int
	// Threshold has sessions of any age swept that are silent for longer.
	Threshold time.Duration

	Run       string
	StartedAt time.Time
	Host      string
	Resume    bool
	Poll      time.Duration
	// More is how many more runs the host has, and Mute has none of them give a sign of life: none is ever silent.
	More    int
	Mute    bool
	Promise time.Duration
}

// A line is what a child prints.
type line struct {
	// Cancelled are the sessions that a pass cancelled.
	Cancelled []string `json:",omitempty"`
	// Attempt is the host's attempt at the run, Cause the cause of the context's end and EndedAt its time.
	Attempt watchdog.Attempt    `json:",omitzero"`
	Cause   watchdog.StopReason `json:",omitempty"`
	EndedAt time.Time           `json:",omitzero"`
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
	if err != nil {
		return unlessEnded(ctx, err)
	}
	if j.Run == "" {
		err = j.sweep(ctx, s, json.NewEncoder(out))
	} else {
		err = j.host(ctx, s, json.NewEncoder(out))
	}
	return errors.Join(err, s.Close())
}

// unlessEnded returns err, or nil if the child was asked to end before the server was back.
func unlessEnded(ctx context.Context, err error) error {
	select {
	case <-ctx.Done():
		return nil
	default:
		return err
	}
}

func (j job) sweep(ctx context.Context, s store, lines *json.Encoder) error {
	minAge := time.Duration(0)
	if j.Threshold > 0 {
		minAge = watchdog.None
	}
	sweeper, err := sweep.New(s, s, sweep.Config{
		StalledThreshold: j.Threshold, MinAge: minAge,
		Interval: j.Interval, StartupDelay: watchdog.None, MaxCancellationsPerRun: int64(j.Cap), Logger: quiet,
		OnPass: func(p sweep.Pass) {
			if said := (line{Cancelled: cancelledIn(p)}); said.Cancelled != nil {
				_ = lines.Encode(said) // the parent may have exited
			}
		},
	})
	if err != nil {
		return err
	}
	return sweeper.Run(ctx)
}

func cancelledIn(p sweep.Pass) (runIDs []string) {
	for _, c := range p.Cases {
		if c.Handling == sweep.CaseCancelled {
			runIDs = append(runIDs, c.Session.RunID)
		}
	}
	return runIDs
}

// host attaches to a run, prints the attempt and later the run's end, and waits for the end of the input.
func (j job) host(ctx context.Context, s store, lines *json.Encoder) error {
	keeper, err := j.keeper(s)
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
	if !j.Mute {
		wd.Activity() // a run that never signals is not silent
	}
	if err := j.attachMore(cfg); err != nil {
		return err
	}
	err = lines.Encode(line{Attempt: wd.Attempt()})
	select {
	case <-wd.Context().Done():
		said := line{EndedAt: time.Now()}
		if stopped := (*watchdog.Stop)(nil); errors.As(context.Cause(wd.Context()), &stopped) {
			said.Cause = stopped.Code
		}
		err = errors.Join(err, lines.Encode(said))
		<-ctx.Done()
	case <-ctx.Done():
	}
	return errors.Join(err, wd.Close())
}

// attachMore attaches to the other runs of the host.
func (j job) attachMore(cfg watchdog.Config) error {
	for i := range j.More {
		run := watchdog.Run{ID: fmt.Sprintf("%s-%05d", j.Run, i), StartedAt: j.StartedAt}
		wd, err := watchdog.New(context.Background(), run, cfg)
		if err != nil {
			return err
		}
		if !j.Mute {
			wd.Activity()
		}
	}
	return nil
}

// keeper says soon that a run is quiet: after a quarter of its threshold.
func (j job) keeper(s session.Store) (*session.Keeper, error) {
	return session.NewKeeper(session.KeeperConfig{
		Store: s, Host: j.Host, Promise: cmp.Or(j.Promise, session.ShortestPromise), Threshold: time.Second,
		Pace: 50 * time.Millisecond, Poll: j.Poll, Logger: quiet,
	})
}
