package main

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/examples/internal/program"
	"github.com/seed62658d38/watchdog/page"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/sqlite"
	"github.com/seed62658d38/watchdog/watchdoghttp"
)

// A saved run is what the next process needs: which run it is, and what was said in it.
type saved struct {
	ID   string    `json:"id"`
	Said []message `json:"said"`
}

func (s *saved) path(o options) string { return filepath.Join(o.state, "run.json") }

func (s *saved) load(o options) error {
	text, err := os.ReadFile(s.path(o))
	if errors.Is(err, fs.ErrNotExist) {
		*s = saved{ID: time.Now().UTC().Format("20060102-150405.000000"), Said: []message{says("user", o.task)}}
		return s.store(o)
	}
	if err == nil {
		err = json.Unmarshal(text, s)
	}
	return err
}

// store writes the file in one step: a kill leaves the old one or the new one.
func (s *saved) store(o options) error {
	text, err := json.Marshal(s)
	if err == nil {
		err = os.WriteFile(s.path(o)+".new", text, 0o600)
	}
	if err != nil {
		return err
	}
	return os.Rename(s.path(o)+".new", s.path(o))
}

// play attaches to the run, or begins it, and works until it is done or stopped.
func play(ctx context.Context, o options, people *console) (err error) {
	if err := os.MkdirAll(o.state, 0o700); err != nil {
		return err
	}
	store, err := sqlite.Open(ctx, filepath.Join(o.state, "runs.db"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	stop, err := o.serve(ctx, store, people)
	if err != nil {
		return err
	}
	defer stop()
	s := &saved{}
	if err := s.load(o); err != nil {
		return err
	}
	wd, closeRun, err := attach(ctx, o, store, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeRun()) }()
	people.say("run %s: %v left, %s", s.ID, wd.Remaining().Round(time.Second), wd.Usage()[0])
	a := &agent{
		wd: wd, said: s.Said, people: people, yes: o.yes, lead: true,
		api:  api{o.baseURL, o.model, o.key, o.price, &http.Client{Transport: &watchdoghttp.Transport{}}},
		keep: func(said []message) error { s.Said = said; return s.store(o) },
	}
	if err := a.work(wd.Context()); err != nil {
		if stop := wd.Stop(); stop != nil {
			return stop
		}
		return err
	}
	people.say("done; %s", wd.Usage()[0])
	return wd.Complete()
}

// attach attaches to the run under its limits, and keeps its row.
func attach(
	ctx context.Context, o options, store *sqlite.Store, s *saved,
) (wd *watchdog.Watchdog, closeRun func() error, err error) {
	quiet := slog.New(slog.DiscardHandler) // the program says it in its own words
	keeper, err := session.NewKeeper(session.KeeperConfig{Store: store, Logger: quiet})
	if err != nil {
		return nil, nil, err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	var kept sync.WaitGroup
	var keptErr error
	kept.Go(func() { keptErr = keeper.Run(running) })
	end := func() error {
		stop()
		kept.Wait()
		return keptErr
	}
	begin := watchdog.New
	if o.resume {
		begin = watchdog.Resume
	}
	wd, err = begin(ctx, watchdog.Run{ID: s.ID}, watchdog.Config{ // the store keeps its start
		Store: store, Keeper: keeper, Logger: quiet,
		Budget: watchdog.Budget{
			WallClock: time.Hour, Idle: 2 * time.Minute,
			Spend: watchdog.Spend{Cost: o.cost, Reserve: watchdog.Totals{Cost: o.cost.Micros / 6}},
		},
	})
	if err != nil {
		return nil, nil, errors.Join(err, end())
	}
	return wd, func() error {
		err := wd.Close() // while its row is still kept
		return errors.Join(err, end())
	}, nil
}

// serve serves the page, if that was asked for.
func (o options) serve(ctx context.Context, store *sqlite.Store, people *console) (stop func(), err error) {
	if o.http == "" {
		return func() {}, nil
	}
	pages, err := page.New(page.Config{Sessions: store, Events: store, Hosts: []string{"localhost"}})
	if err != nil {
		return nil, err
	}
	url, stopServing, err := program.Serve(ctx, o.http, pages)
	if err != nil {
		return nil, errors.Join(err, pages.Close())
	}
	people.say("page: %s", url)
	return func() {
		stopServing()
		_ = pages.Close() // never fails
	}, nil
}
