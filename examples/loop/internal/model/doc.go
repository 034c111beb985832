// Package model is a server that streams like a language model and can be told what to do wrong: the other side of an
// agent loop, for an example and its tests.
//
// A [Model] has one conversation of four turns. The agent posts a [Request] and gets a reply as server-sent events, a chunk at a time: what
// is said ([Token]), what is done ([Status]), and last what the model wants next ([Tool], [Ask], [Again] or [Final]).
// What goes wrong is its [Character], and happens in the second turn.
//
// It does not know what a prompt means: another approach is a number in the request.
package model
