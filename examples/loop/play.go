package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/examples/loop/internal/model"
)

// A host has what all runs share.
type host struct {
	network network
	store   watchdog.EventStore
	raw     bool // print the stored events
}

// playEach plays scenarios at once and prints them in order: the first unfinished one live, each other one in its turn.
func playEach(ctx context.Context, scenarios []scenario, h host, out io.Writer) ([]result, error) {
	type play struct {
		printed bytes.Buffer
		result  result
		err     error
		over    chan struct{}
	}
	plays := make([]*play, len(scenarios))
	for i, s := range scenarios {
		p := &play{over: make(chan struct{})}
		plays[i] = p
		to := io.Writer(&p.printed)
		if i == 0 {
			to = out
		}
		go func() {
			defer close(p.over)
			p.result, p.err = h.play(ctx, s, to)
		}()
	}
	var results []result
	var errs []error
	for _, p := range plays {
		<-p.over
		_, err := p.printed.WriteTo(out)
		results, errs = append(results, p.result), append(errs, p.err, err)
	}
	return results, errors.Join(errs...)
}

// play runs one scenario and returns its result.
func (h host) play(ctx context.Context, s scenario, out io.Writer) (r result, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("scenario %s: %w", s.name, err)
		}
	}()
	url, stopModel, err := h.network.serve(ctx, model.New(s.model))
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, stopModel()) }()
	client := h.network.client()
	defer client.CloseIdleConnections()

	out = &lines{w: out}
	run := watchdog.Run{ID: "loop-" + s.name + "-" + strings.ToLower(rand.Text()[:10]), StartedAt: time.Now()}
	wd, err := h.watch(ctx, run, out)
	if err != nil {
		return r, err
	}
	report := newReport(s, run, out)
	a := &agent{
		wd: wd, client: client, url: url, tools: toolbox{s.tool, s.person}, say: report.say,
	}
	err = a.work()
	r = report.result(a.directives(), wd, err)
	if err := wd.Close(); err != nil {
		return r, err
	}
	events, err := h.store.Read(context.WithoutCancel(ctx), watchdog.AggregateType, run.ID)
	if err != nil {
		return r, err
	}
	return report.end(r, events, h.raw), nil
}

func (h host) watch(ctx context.Context, run watchdog.Run, out io.Writer) (*watchdog.Watchdog, error) {
	return watchdog.New(ctx, run, watchdog.Config{
		Store:            h.store,
		Budget:           limits,
		RecordInterrupts: true,
		// The program reports everything below an error itself.
		Logger: slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelError})),
	})
}
