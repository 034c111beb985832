package main

import (
	"net/http"

	"github.com/seed62658d38/watchdog/sweep"
)

// handler serves the health of a sweeper, if there is one.
func (serveCmd) handler(_ database, sweeper *sweep.Sweeper) (handler http.Handler, closeHandler func(), err error) {
	mux := http.NewServeMux()
	if sweeper != nil {
		mux.Handle("/healthz", sweeper.Handler())
	}
	return mux, func() {}, nil
}
