// HTTPS in front of the daemon for `*.DOMAIN`, and name resolution for this process, so that clients
// that know only a domain (no E2B_API_URL) run unmodified. SDK_TEST_CERT: directory with key.pem and
// cert.pem for *.mayfly.test, which NODE_EXTRA_CA_CERTS makes this process trust.
import dns from 'node:dns'
import fs from 'node:fs'
import net from 'node:net'
import tls from 'node:tls'

const name = 'mayfly.test'

function resolveHere() {
  const lookup = dns.lookup
  dns.lookup = (host, options, callback) => {
    if (!host.endsWith(`.${name}`)) return lookup(host, options, callback)
    if (typeof options === 'function') return options(null, '127.0.0.1', 4)
    if (options.all) return callback(null, [{ address: '127.0.0.1', family: 4 }])
    return callback(null, '127.0.0.1', 4)
  }
}

// The domain, with its port.
export async function startFront(daemon) {
  const read = (file) => fs.readFileSync(`${process.env.SDK_TEST_CERT}/${file}.pem`)
  const server = tls.createServer({ key: read('key'), cert: read('cert') }, (client) => {
    const to = net.connect({ host: daemon.hostname, port: Number(daemon.port), allowHalfOpen: true })
    client.on('error', () => to.destroy()).on('close', () => to.destroy())
    to.on('error', () => client.destroy())
    client.pipe(to)
    to.pipe(client)
  })
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  server.unref()
  resolveHere()
  return `${name}:${server.address().port}`
}
