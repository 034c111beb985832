// Package watchdoghttp makes HTTP responses signs of life: every chunk of a streamed answer is activity of the run that
// the request belongs to, and a server that is silent for too long has its exchange ended.
//
//	client := &http.Client{Transport: &watchdoghttp.Transport{}}
//
// A server that only sends pings, comments or empty lines is silent if the client says so: Alive:
// watchdoghttp.EventStream.
//
// It is a package of its own so that a program without HTTP does not link net/http. It retries nothing, and keeps
// nothing of what passes.
package watchdoghttp
