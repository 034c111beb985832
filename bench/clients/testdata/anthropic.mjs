import {look, loop, prompt, streamed, system} from './loop.mjs'
import Anthropic from '@anthropic-ai/sdk'

const client = new Anthropic()
const messages = [{role: 'user', content: prompt}]
await loop(async () => {
  const params = {
    model: 'claude-opus-5-5', max_tokens: 8192, system, messages, thinking: {type: 'enabled', budget_tokens: 1024},
    tools: [{name: look.name, description: look.description, input_schema: look.schema}],
  }
  const said = streamed ? await client.messages.stream(params).finalMessage() : await client.messages.create(params)
  messages.push({role: 'assistant', content: said.content})
  const results = said.content.filter(b => b.type === 'tool_use')
    .map(b => ({type: 'tool_result', tool_use_id: b.id, content: look.run(b.input)}))
  if (!results.length) return said.content.filter(b => b.type === 'text').map(b => b.text).join('')
  messages.push({role: 'user', content: results})
})
