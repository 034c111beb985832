// Package adapter is what the adapters for the SDKs of agents share: how a run guards one call of a tool and one call
// of a model, and what it says to the model. It knows no SDK.
//
// The run is the one of the context. Without one a call of a tool is bounded all the same, and nothing is counted.
package adapter
