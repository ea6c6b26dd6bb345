// flows: the flows of planned exchanges, carried out by SimGrid instead of Forebay's flow model.
//
// Reads one exchange from standard input (benches/src/bin/check_simgrid writes it) and prints the seconds from its start to
// the last byte at the I/O nodes. Routes are given link by link, so only how flows share links is compared. An aggregator is an
// actor: it receives a round when a buffer is free, then starts that round's I/O, and takes the next. Every flow is an actor too.
//
// SimGrid gives a flow the less of a shared link the longer the latency of its route, as TCP does. By default links have no
// latency here, and a flow's actor waits for it before it sends: then sharing is plainly max-min fair. With the argument
// `biased` the links have their latency, and the sharing is SimGrid's own.
//
// Input, all numbers separated by blanks:
//   LINKS then for each: RATE LATENCY          HOSTS
//   ROUTES then for each: FROM TO N LINK...     BUFFERS
//   AGGREGATORS then for each: HOST IO_HOST ROUNDS then for each round: IO_BYTES FLOWS then for each: FROM BYTES

#include <cstdio>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include <simgrid/s4u.hpp>

namespace s4u = simgrid::s4u;

struct Flow {
  int from;
  double bytes;
};

struct Round {
  double io_bytes;
  std::vector<Flow> flows;
};

struct Aggregator {
  int host, io_host;
  std::vector<Round> rounds;
};

template <class T> static T next()
{
  T value;
  if (!(std::cin >> value)) {
    std::fprintf(stderr, "flows: the input ends early\n");
    std::exit(2);
  }
  return value;
}

static std::vector<s4u::Host*> hosts;
// Seconds that a flow's actor waits before it sends, by the ends of its route.
static std::map<std::pair<int, int>, double> delays;
static double last_end = 0;

static void send(int from, int to, double bytes)
{
  s4u::this_actor::sleep_for(delays.at({from, to}));
  s4u::Comm::sendto(hosts[from], hosts[to], bytes);
}

static void aggregate(const Aggregator& own, int buffers)
{
  auto unused = s4u::Semaphore::create(buffers);
  for (const Round& round : own.rounds) {
    unused->acquire();
    auto come = s4u::Semaphore::create(0);
    for (const Flow& flow : round.flows)
      s4u::Actor::create("flow", hosts[own.host], [&own, flow, come] {
        send(flow.from, own.host, flow.bytes);
        come->release();
      });
    for (size_t i = 0; i < round.flows.size(); i++)
      come->acquire();
    if (round.io_bytes == 0) {
      unused->release();
      continue;
    }
    s4u::Actor::create("io", hosts[own.host], [&own, &round, unused] {
      send(own.host, own.io_host, round.io_bytes);
      last_end = std::max(last_end, s4u::Engine::get_clock());
      unused->release();
    });
  }
}

int main(int argc, char** argv)
{
  s4u::Engine engine(&argc, argv);
  const bool biased = argc > 1 && std::string(argv[1]) == "biased";
  auto* world = s4u::create_full_zone("world");
  std::vector<s4u::Link*> links(next<int>());
  std::vector<double> latencies(links.size());
  for (size_t i = 0; i < links.size(); i++) {
    double rate  = next<double>();
    latencies[i] = next<double>();
    links[i]     = world->create_link("l" + std::to_string(i), rate)->set_latency(biased ? latencies[i] : 0)->seal();
  }
  hosts.resize(next<int>());
  for (size_t i = 0; i < hosts.size(); i++)
    hosts[i] = world->create_host("h" + std::to_string(i), 1e9);
  for (int routes = next<int>(); routes > 0; routes--) {
    int from = next<int>(), to = next<int>();
    std::vector<s4u::LinkInRoute> route;
    double& delay = delays[{from, to}];
    for (int left = next<int>(); left > 0; left--) {
      int link = next<int>();
      route.emplace_back(links[link]);
      delay += biased ? 0 : latencies[link];
    }
    world->add_route(hosts[from]->get_netpoint(), hosts[to]->get_netpoint(), nullptr, nullptr, route, false);
  }
  world->seal();
  int buffers = next<int>();
  std::vector<Aggregator> aggregators(next<int>());
  for (Aggregator& each : aggregators) {
    each.host    = next<int>();
    each.io_host = next<int>();
    each.rounds.resize(next<int>());
    for (Round& round : each.rounds) {
      round.io_bytes = next<double>();
      round.flows.resize(next<int>());
      for (Flow& flow : round.flows) {
        flow.from  = next<int>();
        flow.bytes = next<double>();
      }
    }
  }
  for (const Aggregator& each : aggregators)
    s4u::Actor::create("aggregator", hosts[each.host], [&each, buffers] { aggregate(each, buffers); });
  engine.run();
  std::printf("%.12g\n", last_end);
  return 0;
}
