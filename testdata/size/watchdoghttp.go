//go:build watchdoghttp

package main

import (
	"time"

	"github.com/seed62658d38/watchdog/watchdoghttp"
)

func init() { transport = &watchdoghttp.Transport{Idle: time.Minute, Alive: watchdoghttp.EventStream} }
