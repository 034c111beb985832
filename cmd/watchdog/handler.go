package main

import (
	"net/http"

	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/stores"
	"github.com/seed62658d38/watchdog/page"
	"github.com/seed62658d38/watchdog/sweep"
)

// pages makes the page of a store. Without a sweeper it has none to show.
func (p Program) pages(
	common *Common, db stores.Database, sweeper *sweep.Sweeper, passes *page.PassLog, hosts []string,
) (*page.Page, error) {
	cfg := page.Config{Sessions: db, Events: db, Hosts: hosts, Logger: p.logger(common.JSON)}
	if sweeper != nil {
		cfg.Sweeper, cfg.PassLog = sweeper, passes
	}
	return page.New(cfg)
}

// handlerOf serves the page at /, and the health of the sweeper, if there is one, both under the names of the page.
func handlerOf(pages *page.Page, sweeper *sweep.Sweeper) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/{$}", pages)
	if sweeper != nil {
		mux.Handle("/healthz", sweeper.Handler())
	}
	return pages.Guard(mux)
}
