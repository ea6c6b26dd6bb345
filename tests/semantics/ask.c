/* Asks a view what include/forebay.h offers: ask VIEW metrics | clear | pin PATH. Prints counts, or errno and ends 1. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "forebay.h"

int main(int count, char **words)
{
    int view = open(words[1], O_RDONLY);
    struct forebay_metrics metrics;
    struct forebay_pin pin;
    int done = -1;

    if (view < 0) {
        perror(words[1]);
        return 2;
    }
    if (!strcmp(words[2], "metrics")) {
        done = ioctl(view, FOREBAY_IOC_METRICS, &metrics);
        if (done == 0)
            printf("%u %u %llu %llu %llu\n", metrics.version, metrics.node_rank,
                   (unsigned long long)metrics.kept_bytes, (unsigned long long)metrics.budget_bytes,
                   (unsigned long long)metrics.backing_bytes);
    } else if (!strcmp(words[2], "clear")) {
        done = ioctl(view, FOREBAY_IOC_CLEAR);
    } else if (!strcmp(words[2], "pin") && count > 3) {
        memset(&pin, 0, sizeof pin);
        strncpy(pin.path, words[3], sizeof pin.path - 1);
        done = ioctl(view, FOREBAY_IOC_PIN, &pin);
    }
    if (done != 0) {
        printf("%d\n", errno);
        return 1;
    }
    return 0;
}
