// Package usage reads from the bytes on the wire what a call of a model API uses up: the most that it can, from its
// request, before it is made, and what it did, from the usage fields of its response.
//
// # Before the call
//
// [RouteOf] says which API a request is for, [ReadCall] what its body asks for, and [Call].Bound how much that is at
// most. Input that is text in the body is bounded by its bytes, or by what an earlier call took in that had some of the
// same parts: see [History]. For what is no text there are tables of what vendors publish. Input that the body only
// names needs the model's declared [Maximum], and an [*Unbounded] says what it was.
//
// # After it
//
// A [Reader] is fed the response's body as it arrives, plain or as a stream of events, and keeps counts, never text.
// [Billing] says what a response without usage means.
//
// # Money
//
// [Prices] are data of the host's. [Prices].Cost prices what was used, [Prices].Most what a call can use.
//
// It does no I/O but [Peek], which reads a request's body ahead. It admits nothing, settles nothing, and invents
// no price.
package usage
