import {look, loop, prompt, streamed, system} from './loop.mjs'
import OpenAI from 'openai'

const client = new OpenAI()
const input = [{role: 'user', content: prompt}]
await loop(async () => {
  const params = {
    model: 'gpt-5.1', instructions: system, input, store: false, include: ['reasoning.encrypted_content'],
    reasoning: {effort: 'low', summary: 'auto'},
    tools: [{type: 'function', name: look.name, description: look.description, parameters: look.schema, strict: false}],
  }
  const said = streamed ? await client.responses.stream(params).finalResponse() : await client.responses.create(params)
  input.push(...said.output.map(({parsed_arguments, ...item}) => item))
  const results = said.output.filter(i => i.type === 'function_call')
    .map(i => ({type: 'function_call_output', call_id: i.call_id, output: look.run(JSON.parse(i.arguments))}))
  if (!results.length) return said.output_text
  input.push(...results)
})
