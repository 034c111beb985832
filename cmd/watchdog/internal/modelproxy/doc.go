// Package modelproxy is a proxy on the loopback interface through which a command calls model APIs, so that its calls
// are charged to a run. The command finds it by the variables that its clients read for the base of their requests.
//
// It listens on 127.0.0.1 alone, below a path that nobody can guess, and forwards to the hosts that it was given and to
// no other. It keeps no key, prompt or answer, and logs none; a response passes as it is, chunk by chunk.
package modelproxy
