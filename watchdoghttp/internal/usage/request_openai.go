package usage

// chatBody is the body of a request to OpenAI Chat Completions.
var chatBody = fields(text,
	"temperature", "top_p", "frequency_penalty", "presence_penalty", "logit_bias", "logprobs", "top_logprobs", "seed",
	"stop", "user", "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "prompt_cache_options", "metadata",
	"store", "service_tier", "verbosity", "reasoning_effort", "response_format", "tool_choice", "parallel_tool_calls",
	"function_call", "modalities", "audio",
).with(object{
	"model":                 model,
	"max_tokens":            maxOutput("max_tokens"),
	"max_completion_tokens": maxOutput("max_completion_tokens"),
	"n":                     candidates("n"),
	"best_of":               candidates("best_of"),
	"stream":                func(r *request, v value) { r.call.Stream = v.isTrue() },
	"stream_options":        streamOptions,
	"prediction": func(r *request, v value) { // what of it is wrong is billed as output
		r.call.extraOutput = int64(len(v))
	},
	"messages":  each(chatMessage),
	"tools":     each(chatTool),
	"functions": each(func(r *request, _ value) { r.part() }),
	"web_search_options": func(r *request, v value) {
		if string(v) != "null" {
			r.serverTool("web_search_options", -1)
		}
	},
})

func streamOptions(r *request, v value) {
	if v[0] != '{' {
		return
	}
	v.members(func(key string, member value) {
		if key == "include_usage" {
			r.call.Usage = member.isTrue()
		}
	})
}

func chatMessage(r *request, v value) {
	r.part()
	r.object(fields(text, "role", "name", "refusal", "tool_calls", "tool_call_id", "function_call", "annotations",
		"reasoning_content").with(object{
		"content": content(func() map[string]kind {
			return map[string]kind{
				"text":      {has: fields(text, "type", "text", "cache_control", "prompt_cache_breakpoint")},
				"refusal":   {has: fields(text, "type", "refusal")},
				"image_url": {why: Media}, "input_audio": {why: Media}, "file": {why: Media},
			}
		}),
		"audio": refers(Reference, "audio"),
	}), v, nil)
}

func chatTool(r *request, v value) {
	r.part()
	r.typed(map[string]kind{
		"function": {has: fields(text, "type", "function", "cache_control")},
		"custom":   {has: fields(text, "type", "custom")},
	}, "function", v)
}

// responsesBody is the body of a request to OpenAI Responses.
var responsesBody = fields(text,
	"background", "include", "instructions", "metadata", "parallel_tool_calls", "prompt_cache_key",
	"prompt_cache_retention", "prompt_cache_options", "reasoning", "safety_identifier", "service_tier", "store",
	"stream_options", "temperature", "text", "tool_choice", "top_logprobs", "top_p", "truncation", "user",
).with(object{
	"model":                model,
	"max_output_tokens":    maxOutput("max_output_tokens"),
	"max_tool_calls":       text, // read with the tools, wherever it stands
	"stream":               func(r *request, v value) { r.call.Stream = v.isTrue() },
	"input":                responsesInput,
	"tools":                each(responsesTool),
	"previous_response_id": refers(Reference, "previous_response_id"),
	"conversation":         refers(Reference, "conversation"),
	"prompt":               refers(Reference, "prompt"),
	"context_management":   refers(ServerTool, "context_management"),
})

func responsesInput(r *request, v value) {
	if v[0] == '"' || v.isNothing() {
		r.part()
		return
	}
	each(func(r *request, item value) {
		r.part()
		r.typed(responsesItems, "message", item)
	})(r, v)
}

// responsesItems are the types of input. What only names something, or was made by the API's own tools, is kept there.
var responsesItems = map[string]kind{
	"message": {has: fields(text, "type", "id", "role", "status", "phase").
		with(object{"content": responsesContent})},
	"function_call": {has: fields(text, "type", "id", "call_id", "name", "arguments", "status", "namespace")},
	"function_call_output": {has: fields(text, "type", "id", "call_id", "status", "name").
		with(object{"output": responsesContent})},
	"custom_tool_call": {has: fields(text, "type", "id", "call_id", "name", "input", "namespace")},
	"custom_tool_call_output": {has: fields(text, "type", "id", "call_id").
		with(object{"output": responsesContent})},
	"reasoning": {why: Opaque}, "compaction": {why: Opaque}, "item_reference": {why: Reference},
	"file_search_call": {why: ServerTool}, "web_search_call": {why: ServerTool}, "computer_call": {why: ServerTool},
	"computer_call_output": {why: Media}, "image_generation_call": {why: ServerTool},
	"code_interpreter_call": {why: ServerTool}, "mcp_list_tools": {why: ServerTool}, "mcp_call": {why: ServerTool},
	"mcp_approval_request": {why: ServerTool}, "mcp_approval_response": {why: ServerTool},
}

var responsesContent = content(func() map[string]kind {
	return map[string]kind{
		"input_text":  {has: fields(text, "type", "text", "prompt_cache_breakpoint")},
		"output_text": {has: fields(text, "type", "text", "annotations", "logprobs")},
		"refusal":     {has: fields(text, "type", "refusal")},
		"input_image": {why: Media}, "input_audio": {why: Media}, "input_file": {why: Media},
	}
})

// responsesTool takes a tool. Only functions and custom tools are all in the body.
func responsesTool(r *request, v value) {
	r.part()
	known := map[string]kind{
		"function": {has: fields(text, "type", "name", "description", "parameters", "strict", "defer_loading",
			"allowed_callers", "output_schema")},
		"custom": {has: fields(text, "type", "name", "description", "format", "defer_loading", "allowed_callers")},
	}
	name := ""
	if v[0] == '{' {
		v.members(func(key string, member value) {
			if key == "type" {
				name = member.text()
			}
		})
	}
	if _, own := known[name]; !own {
		r.serverTool(name, -1)
		return
	}
	r.typed(known, "", v)
}
