/* Forebay: what a program may ask of a view by ioctl(2) on the view's root directory.
 *
 *     int view = open("/path/of/the/view", O_RDONLY | O_DIRECTORY);
 *     struct forebay_metrics metrics;
 *     if (ioctl(view, FOREBAY_IOC_METRICS, &metrics) == 0) ...
 *
 * Errors: ENOTTY not a view's root directory, or an unknown command; EINVAL a path that is none;
 * ENOSPC too many pinned paths; EPERM CLEAR or PIN by another user than the job's (with --allow-other). All counts are of this node since its daemon started.
 */
#ifndef FOREBAY_H
#define FOREBAY_H

#include <stdint.h>
#include <sys/ioctl.h>

#define FOREBAY_METRICS_VERSION 1

struct forebay_metrics {
    uint32_t version;           /* FOREBAY_METRICS_VERSION; fields are added at the end, never moved */
    uint32_t node_rank;         /* index of this node in the job */
    uint64_t kept_bytes;        /* in the caches now, bytes */
    uint64_t budget_bytes;      /* that the caches may hold, bytes */
    uint64_t negative_hits;     /* absent names answered from a complete listing */
    uint64_t coalesced;         /* requests that joined one under way */
    uint64_t attributes_entries, attributes_hits, attributes_misses;
    uint64_t listings_entries, listings_hits, listings_misses;
    uint64_t chunks_entries, chunks_hits, chunks_misses;
    uint64_t backing_listings;  /* directories listed on the backing file system by this node */
    uint64_t backing_opens;     /* files opened there */
    uint64_t backing_reads;     /* reads there */
    uint64_t backing_bytes;     /* bytes read there */
};

struct forebay_pin {
    char path[4096];            /* in the view, from its root: "/soft/python"; ended by a NUL */
};

/* Reads the counts of this node. */
#define FOREBAY_IOC_METRICS _IOR('F', 1, struct forebay_metrics)
/* Drops all that this node and its kernel keep for this view, pins included. */
#define FOREBAY_IOC_CLEAR _IO('F', 2)
/* Exempts what is kept, and what will be read, at or below a path from eviction until CLEAR. */
#define FOREBAY_IOC_PIN _IOW('F', 3, struct forebay_pin)

#endif
