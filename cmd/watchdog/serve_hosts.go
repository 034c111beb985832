package main

import (
	"fmt"
	"net"
	"slices"
)

// hosts are the names that are answered: those of this machine for itself, where it listens, and those of --host. The
// page adds the address of each connection, so that a server that listens on all of them has those that come later.
func (c serveCmd) hosts(at net.Addr) []string {
	names := []string{"localhost", "127.0.0.1", "::1", at.String()}
	if given, _, err := net.SplitHostPort(c.Listen); err == nil && given != "" {
		names = append(names, given)
	}
	return slices.Concat(names, c.Host)
}

// warnReachable says that other machines reach the address, if they do.
func (p Program) warnReachable(common *Common, at net.Addr) {
	if tcp, is := at.(*net.TCPAddr); is && tcp.IP.IsLoopback() {
		return
	}
	const what = "other machines can reach this address, and whoever does sees all sessions"
	if common.JSON {
		p.logger(true).Warn(what, "address", at.String())
		return
	}
	p.note(common, fmt.Sprintf("%s: %s; listen on 127.0.0.1, or put it behind what authenticates people", what, at))
}
