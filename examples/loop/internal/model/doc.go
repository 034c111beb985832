// Package model is a server that streams like a language model and can be made to fail: the other side of an agent
// loop, for an example and its tests.
//
// A [Model] has one conversation of four turns. The agent posts a [Request] and gets a reply as server-sent events,
// one at a time: text ([Token]), the current work ([Status]), and last the next step of the agent ([Tool], [Tools],
// [SubAgents], [Ask], [Again] or [Final]). Its [Character] says what goes wrong in the second turn.
//
// The model does not read the prompt: another approach is a number in the request.
package model
